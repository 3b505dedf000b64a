import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.api.transaction.Transaction;

/**
 * The stock Java client behind a pipe. Reads one command per line, and answers each with one line, "ok ..." or "error ...".
 *
 * <p>Arguments: the service URL, and for a client without transactions its lookup property {@code rack}. The transaction "-" means no
 * transaction.
 */
public final class TransactionClient {
    private final PulsarClient client;
    private final Map<String, Transaction> transactions = new HashMap<>();
    private final Map<String, Producer<String>> producers = new HashMap<>();
    private final Map<String, Consumer<String>> consumers = new HashMap<>();
    private final Map<String, MessageId> received = new HashMap<>();

    private TransactionClient(PulsarClient client) {
        this.client = client;
    }

    public static void main(String[] args) throws Exception {
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Map<String, String> properties = args.length > 1 ? Map.of("rack", args[1]) : Map.of();
        try (PulsarClient client = PulsarClient.builder().serviceUrl(args[0]).enableTransaction(properties.isEmpty())
                .lookupProperties(properties).operationTimeout(60, TimeUnit.SECONDS).build()) {
            TransactionClient state = new TransactionClient(client);
            System.out.println("ok ready");
            for (String line = commands.readLine(); line != null; line = commands.readLine()) {
                String answer;
                try {
                    answer = "ok " + state.run(line.split(" "));
                } catch (Exception error) {
                    answer = "error " + String.valueOf(error).replace('\n', ' ');
                }
                System.out.println(answer);
            }
        }
        System.exit(0);
    }

    private String run(String[] words) throws Exception {
        switch (words[0]) {
            case "begin":  // NAME SECONDS
                transactions.put(words[1], client.newTransaction()
                        .withTransactionTimeout(Long.parseLong(words[2]), TimeUnit.SECONDS).build().get(60, TimeUnit.SECONDS));
                return "";
            case "send":  // TOPIC TRANSACTION VALUE [KEY]
                Producer<String> producer = producer(words[1]);
                var message = words[2].equals("-") ? producer.newMessage() : producer.newMessage(transactions.get(words[2]));
                if (words.length > 4) {
                    message.key(words[4]);
                }
                return message.value(words[3]).sendAsync().get(60, TimeUnit.SECONDS).toString();
            case "commit":
                transactions.remove(words[1]).commit().get(60, TimeUnit.SECONDS);
                return "";
            case "abort":
                transactions.remove(words[1]).abort().get(60, TimeUnit.SECONDS);
                return "";
            case "subscribe":  // NAME TOPIC SUBSCRIPTION TYPE POSITION
                consumers.put(words[1], client.newConsumer(Schema.STRING).topic(words[2]).subscriptionName(words[3])
                        .subscriptionType(SubscriptionType.valueOf(words[4]))
                        .subscriptionInitialPosition(SubscriptionInitialPosition.valueOf(words[5])).subscribe());
                return "";
            case "receive": {  // NAME MILLISECONDS
                Message<String> got = consumers.get(words[1]).receive(Integer.parseInt(words[2]), TimeUnit.MILLISECONDS);
                if (got == null) {
                    return "none";
                }
                received.put(words[1], got.getMessageId());
                return got.getMessageId() + " " + got.getValue();
            }
            case "ack":  // NAME TRANSACTION: acks the last received message
                acked(consumers.get(words[1]), received.get(words[1]), words[2], false);
                return "";
            case "ack-up-to":
                acked(consumers.get(words[1]), received.get(words[1]), words[2], true);
                return "";
            case "redeliver":
                consumers.get(words[1]).redeliverUnacknowledgedMessages();
                return "";
            case "close":
                consumers.remove(words[1]).close();
                return "";
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private void acked(Consumer<String> consumer, MessageId id, String transaction, boolean cumulative) throws Exception {
        if (transaction.equals("-")) {
            if (cumulative) {
                consumer.acknowledgeCumulative(id);
            } else {
                consumer.acknowledge(id);
            }
        } else if (cumulative) {
            consumer.acknowledgeCumulativeAsync(id, transactions.get(transaction)).get(60, TimeUnit.SECONDS);
        } else {
            consumer.acknowledgeAsync(id, transactions.get(transaction)).get(60, TimeUnit.SECONDS);
        }
    }

    private Producer<String> producer(String topic) throws Exception {
        Producer<String> known = producers.get(topic);
        if (known == null) {
            known = client.newProducer(Schema.STRING).topic(topic).sendTimeout(0, TimeUnit.SECONDS).enableBatching(false).create();
            producers.put(topic, known);
        }
        return known;
    }
}
