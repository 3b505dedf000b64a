import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Schema;

/** Publishes transactions of one message each at a steady rate, and prints how many have ended, once a second. */
public final class Transactions {
    private static final int MOST_OPEN = 400;
    private static final int ABORTED_OF = 100;

    private Transactions() {
    }

    /** Arguments: service URL, topic, transactions a second, seconds. */
    public static void main(String[] args) throws Exception {
        double rate = Double.parseDouble(args[2]);
        long endNanos = Long.parseLong(args[3]) * 1_000_000_000L;
        Semaphore open = new Semaphore(MOST_OPEN);
        AtomicLong ended = new AtomicLong();
        AtomicLong failed = new AtomicLong();
        try (PulsarClient client = PulsarClient.builder().serviceUrl(args[0]).enableTransaction(true).build();
                Producer<byte[]> producer = client.newProducer(Schema.BYTES).topic(args[1])
                        .sendTimeout(0, TimeUnit.SECONDS).maxPendingMessages(MOST_OPEN * 2).create()) {
            long began = System.nanoTime();
            long shown = 0;
            for (long number = 0; System.nanoTime() - began < endNanos; number++) {
                long early = (long) (number / rate * 1e9) - (System.nanoTime() - began);
                if (early > 0) {
                    TimeUnit.NANOSECONDS.sleep(early);
                }
                open.acquire();
                boolean aborts = number % ABORTED_OF == 0;
                byte[] value = Long.toString(number).getBytes();
                client.newTransaction().withTransactionTimeout(5, TimeUnit.MINUTES).build()
                        .thenCompose(one -> producer.newMessage(one).value(value).sendAsync()
                                .thenCompose(id -> aborts ? one.abort() : one.commit()))
                        .whenComplete((none, error) -> {
                            (error == null ? ended : failed).incrementAndGet();
                            open.release();
                        });
                if (System.nanoTime() - began > shown * 1_000_000_000L) {
                    shown++;
                    System.out.println(ended.get());
                }
            }
            open.acquire(MOST_OPEN);
            System.out.println(ended.get());
        }
        if (failed.get() > 0) {
            System.err.println(failed.get() + " transactions failed");
            System.exit(1);
        }
    }
}
