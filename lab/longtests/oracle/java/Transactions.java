import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.CompressionType;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.TypedMessageBuilder;
import org.apache.pulsar.client.api.transaction.Transaction;

/**
 * Publishes transactions with the stock Java client. Several run concurrently, on one topic or two, and are committed or aborted.
 * Messages outside of transactions and messages without values are between them.
 *
 * <p>Arguments: URL SEED TRANSACTIONS LEAVE_OPEN TOPIC... With LEAVE_OPEN=true the last topic ends with an open transaction.
 * Prints one line: "committed C aborted A open O messages M".
 */
public final class Transactions {
    private static final CompressionType[] COMPRESSIONS = CompressionType.values();

    private final Random random;
    private final PulsarClient client;
    private int messages;

    private Transactions(PulsarClient client, long seed) {
        this.client = client;
        this.random = new Random(seed);
    }

    public static void main(String[] args) throws Exception {
        String url = args[0];
        long seed = Long.parseLong(args[1]);
        int count = Integer.parseInt(args[2]);
        boolean leaveOpen = Boolean.parseBoolean(args[3]);
        List<String> topics = Arrays.asList(args).subList(4, args.length);
        try (PulsarClient client = PulsarClient.builder().serviceUrl(url).enableTransaction(true)
                .operationTimeout(60, TimeUnit.SECONDS).build()) {
            new Transactions(client, seed).run(topics, count, leaveOpen);
        }
        System.exit(0);
    }

    private void run(List<String> topics, int count, boolean leaveOpen) throws Exception {
        int committed = 0;
        int aborted = 0;
        int open = 0;
        for (int t = 0; t < topics.size(); t++) {
            try (Producer<byte[]> first = producer(topics.get(t));
                    Producer<byte[]> second = producer(topics.get((t + 1) % topics.size()))) {
                List<Transaction> running = new ArrayList<>();
                for (int started = 0; started < count || !running.isEmpty();) {
                    if (started < count && running.size() < 3) {
                        running.add(begin(10));
                        started++;
                    }
                    for (Transaction transaction : running) {
                        send(first, transaction);
                        if (random.nextInt(4) == 0) {
                            send(second, transaction);
                        }
                    }
                    if (random.nextInt(3) == 0) {
                        send(first, null);
                    }
                    Transaction ending = running.get(random.nextInt(running.size()));
                    if (running.size() == 3 || started == count) {
                        running.remove(ending);
                        if (random.nextInt(3) == 0) {
                            ending.abort().get(60, TimeUnit.SECONDS);
                            aborted++;
                        } else {
                            ending.commit().get(60, TimeUnit.SECONDS);
                            committed++;
                        }
                    }
                }
                if (leaveOpen && t == topics.size() - 1) {
                    send(first, begin(60 * 12));
                    send(first, null);
                    open++;
                }
            }
        }
        System.out.printf("committed %d aborted %d open %d messages %d%n", committed, aborted, open, messages);
    }

    private Transaction begin(int minutes) throws Exception {
        return client.newTransaction().withTransactionTimeout(minutes, TimeUnit.MINUTES).build().get(60, TimeUnit.SECONDS);
    }

    private Producer<byte[]> producer(String topic) throws Exception {
        boolean batching = random.nextBoolean();
        return client.newProducer(Schema.BYTES).topic(topic).sendTimeout(0, TimeUnit.SECONDS)
                .enableBatching(batching).batchingMaxMessages(4).blockIfQueueFull(true)
                .compressionType(COMPRESSIONS[random.nextInt(COMPRESSIONS.length)]).create();
    }

    /** Sends some messages, in a transaction, or outside for null. */
    private void send(Producer<byte[]> producer, Transaction transaction) throws Exception {
        List<CompletableFuture<MessageId>> sent = new ArrayList<>();
        int count = 1 + random.nextInt(8);
        for (int i = 0; i < count; i++) {
            TypedMessageBuilder<byte[]> builder =
                    transaction == null ? producer.newMessage() : producer.newMessage(transaction);
            byte[] value = new byte[random.nextInt(2000)];
            random.nextBytes(value);
            builder.value(random.nextInt(20) == 0 ? null : value).key("key-" + random.nextInt(20))
                    .property("number", Integer.toString(messages));
            if (random.nextInt(5) == 0) {
                builder.orderingKey(new byte[] {(byte) random.nextInt(256)});
            }
            sent.add(builder.sendAsync());
            messages++;
        }
        producer.flush();
        for (CompletableFuture<MessageId> one : sent) {
            one.get(60, TimeUnit.SECONDS);
        }
    }
}
