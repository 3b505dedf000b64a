import io.smallrye.reactive.messaging.pulsar.PulsarIncomingMessageMetadata;
import jakarta.enterprise.context.ApplicationScoped;
import java.util.Map;
import java.util.concurrent.CompletionStage;
import org.eclipse.microprofile.reactive.messaging.Incoming;
import org.eclipse.microprofile.reactive.messaging.Message;
import org.jboss.weld.environment.se.Weld;

/** A channel of the smallrye-pulsar connector in Weld. */
public final class Main {
    public static void main(String[] args) {
        Report.run(Main::receive);
    }

    private static void receive() throws Exception {
        String channel = "mp.messaging.incoming.data.";
        Map.of("connector", "smallrye-pulsar",
                "serviceUrl", Report.SERVICE_URL,
                "topic", Report.TOPIC,
                "schema", "BYTES",
                "subscriptionName", Report.SUBSCRIPTION,
                "subscriptionType", Report.TYPE,
                "subscriptionInitialPosition", "Earliest").forEach((name, value) -> System.setProperty(channel + name, value));
        try (var container = new Weld().addBeanClass(Consumer.class).initialize()) {
            Report.ready();
            Report.await(Report.COUNT);
        }
    }

    @ApplicationScoped
    public static class Consumer {
        @Incoming("data")
        CompletionStage<Void> consume(Message<byte[]> message) {
            var metadata = message.getMetadata(PulsarIncomingMessageMetadata.class).orElseThrow();
            Report.received(message.getPayload(), Report.id(metadata.getMessageId()), metadata.getRedeliveryCount());
            return message.ack().thenRun(Report::handled);
        }
    }
}
