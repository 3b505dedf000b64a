import java.time.Duration;
import java.util.concurrent.TimeoutException;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.reactive.client.adapter.AdaptedReactivePulsarClientFactory;
import org.apache.pulsar.reactive.client.api.EndOfStreamAction;
import org.apache.pulsar.reactive.client.api.MessageResult;
import org.apache.pulsar.reactive.client.api.ReactivePulsarClient;
import org.apache.pulsar.reactive.client.api.StartAtSpec;
import reactor.core.publisher.Flux;

/** A consumer or reader of the reactive client, as a Flux. */
public final class Main {
    public static void main(String[] args) {
        Report.run(Main::receive);
    }

    private static void receive() throws Exception {
        try (PulsarClient client = PulsarClient.builder().serviceUrl(Report.SERVICE_URL).build()) {
            ReactivePulsarClient reactive = AdaptedReactivePulsarClientFactory.create(client);
            Report.ready();
            Flux<Message<byte[]>> messages = Report.isReader() ? read(reactive) : consume(reactive);
            messages.take(Report.COUNT)
                    .timeout(Duration.ofNanos(Report.IDLE_NANOS))
                    .onErrorResume(TimeoutException.class, idle -> Flux.empty())
                    .doOnError(Report::error)
                    .blockLast();
        }
    }

    private static Flux<Message<byte[]>> consume(ReactivePulsarClient client) {
        return client.messageConsumer(Schema.BYTES)
                .topic(Report.TOPIC)
                .subscriptionName(Report.SUBSCRIPTION)
                .subscriptionType(Report.subscriptionType())
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest)
                // With grouped acks, some of the last entries stayed unacked at the end, at the owner too; the cause was not isolated.
                .acknowledgementsGroupTime(Duration.ZERO)
                .build()
                .consumeMany(messages -> messages.map(message -> {
                    tell(message);
                    return MessageResult.acknowledge(message.getMessageId(), message);
                }));
    }

    private static Flux<Message<byte[]>> read(ReactivePulsarClient client) {
        return client.messageReader(Schema.BYTES)
                .topic(Report.TOPIC)
                .startAtSpec(StartAtSpec.ofEarliest())
                .endOfStreamAction(EndOfStreamAction.POLL)
                .build()
                .readMany()
                .doOnNext(Main::tell);
    }

    private static void tell(Message<byte[]> message) {
        Report.message(message.getData(), Report.id(message.getMessageId()), message.getRedeliveryCount());
    }
}
