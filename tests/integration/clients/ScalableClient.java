import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.apache.pulsar.client.api.v5.PulsarClient;
import org.apache.pulsar.client.api.v5.config.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.v5.schema.Schema;

/** Publishes and receives some messages of a scalable topic: URL TOPIC COUNT. Prints their number, or the error. */
class ScalableClient {
    public static void main(String[] words) throws Exception {
        int count = Integer.parseInt(words[2]);
        try (var client = PulsarClient.builder().serviceUrl(words[0]).operationTimeout(Duration.ofSeconds(20)).build()) {
            var consumer = client.newQueueConsumer(Schema.string()).topic(words[1]).subscriptionName("s")
                    .subscriptionInitialPosition(SubscriptionInitialPosition.EARLIEST).subscribe();
            var producer = client.newProducer(Schema.string()).topic(words[1]).create();
            for (int number = 0; number < count; number++) {
                producer.newMessage().key("k" + number).value("v" + number).send();
            }
            List<String> got = new ArrayList<>();
            while (got.size() < count) {
                var message = consumer.receive(Duration.ofSeconds(20));
                if (message == null) {
                    break;
                }
                got.add(message.value());
                consumer.acknowledge(message.id());
            }
            System.out.println("received " + got.size());
        } catch (Exception error) {
            System.out.println("error " + error);
        }
        System.exit(0);
    }
}
