import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.camel.CamelContext;
import org.apache.camel.Exchange;
import org.apache.camel.builder.RouteBuilder;
import org.apache.camel.component.pulsar.PulsarComponent;
import org.apache.camel.component.pulsar.utils.message.PulsarMessageHeaders;
import org.apache.camel.impl.DefaultCamelContext;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.PulsarClient;

/** A route from the pulsar component; the component acks when the route has ended. */
public final class Main {
    private static final Map<String, String> TYPES = Map.of(
            "Exclusive", "EXCLUSIVE", "Failover", "FAILOVER", "Shared", "SHARED", "Key_Shared", "KEY_SHARED");

    public static void main(String[] args) {
        Report.run(Main::receive);
    }

    private static void receive() throws Exception {
        try (PulsarClient client = PulsarClient.builder().serviceUrl(Report.SERVICE_URL).build();
                CamelContext context = new DefaultCamelContext()) {
            PulsarComponent component = new PulsarComponent(context);
            component.setPulsarClient(client);
            context.addComponent("pulsar", component);
            context.addRoutes(new RouteBuilder() {
                @Override
                public void configure() {
                    onException(Exception.class).process(exchange -> Report.error(
                            exchange.getProperty(Exchange.EXCEPTION_CAUGHT)));
                    from("pulsar:" + Report.TOPIC + "?subscriptionInitialPosition=EARLIEST&subscriptionType="
                                    + TYPES.get(Report.TYPE) + "&subscriptionName="
                                    + URLEncoder.encode(Report.SUBSCRIPTION, StandardCharsets.UTF_8))
                            .process(Main::tell);
                }
            });
            context.start();
            Report.ready();
            Report.await(Report.COUNT);
            context.stop();
        }
    }

    private static void tell(Exchange exchange) {
        var message = exchange.getIn();
        MessageId id = message.getHeader(PulsarMessageHeaders.MESSAGE_ID, MessageId.class);
        Integer redeliveries = message.getHeader(PulsarMessageHeaders.PULSAR_REDELIVERY_COUNT, Integer.class);
        Report.message(message.getBody(byte[].class), Report.id(id), redeliveries);
    }
}
