import java.util.List;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.pulsar.annotation.EnablePulsar;
import org.springframework.pulsar.annotation.PulsarListener;
import org.springframework.pulsar.annotation.PulsarReader;
import org.springframework.pulsar.config.ConcurrentPulsarListenerContainerFactory;
import org.springframework.pulsar.config.DefaultPulsarReaderContainerFactory;
import org.springframework.pulsar.core.DefaultPulsarClientFactory;
import org.springframework.pulsar.core.DefaultPulsarConsumerFactory;
import org.springframework.pulsar.core.DefaultPulsarReaderFactory;
import org.springframework.pulsar.core.PulsarConsumerFactory;
import org.springframework.pulsar.core.PulsarReaderFactory;
import org.springframework.pulsar.listener.PulsarContainerProperties;
import org.springframework.pulsar.reader.PulsarReaderContainerProperties;

/** A listener or reader of annotated methods, without Spring Boot. */
public final class Main {
    public static void main(String[] args) {
        Report.run(Main::receive);
    }

    private static void receive() throws Exception {
        Class<?> bean = Report.isReader() ? Reader.class : Listener.class;
        try (var context = new AnnotationConfigApplicationContext(Config.class, bean)) {
            Report.ready();
            Report.await(Report.COUNT);
        }
    }

    private static void tell(Message<byte[]> message) {
        Report.message(message.getData(), Report.id(message.getMessageId()), message.getRedeliveryCount());
    }

    /** Record listener with the default ack mode: a batch of messages is acked when all were handled. */
    public static class Listener {
        @PulsarListener(topics = "${TOPIC}", subscriptionName = "${SUBSCRIPTION}")
        void listen(Message<byte[]> message) {
            tell(message);
        }
    }

    public static class Reader {
        @PulsarReader(topics = "${TOPIC}", startMessageId = "earliest")
        void read(Message<byte[]> message) {
            tell(message);
        }
    }

    @Configuration
    @EnablePulsar
    public static class Config {
        @Bean
        PulsarClient pulsarClient() throws PulsarClientException {
            return new DefaultPulsarClientFactory(Report.SERVICE_URL).createClient();
        }

        @Bean
        PulsarConsumerFactory<Object> pulsarConsumerFactory(PulsarClient client) {
            return new DefaultPulsarConsumerFactory<>(client, List.of(
                    builder -> builder.subscriptionInitialPosition(SubscriptionInitialPosition.Earliest)));
        }

        @Bean
        ConcurrentPulsarListenerContainerFactory<Object> pulsarListenerContainerFactory(
                PulsarConsumerFactory<Object> factory) {
            PulsarContainerProperties properties = new PulsarContainerProperties();
            if (!Report.isReader()) {
                properties.setSubscriptionType(Report.subscriptionType());
            }
            return new ConcurrentPulsarListenerContainerFactory<>(factory, properties);
        }

        @Bean
        PulsarReaderFactory<Object> pulsarReaderFactory(PulsarClient client) {
            return new DefaultPulsarReaderFactory<>(client);
        }

        @Bean
        DefaultPulsarReaderContainerFactory<Object> pulsarReaderContainerFactory(PulsarReaderFactory<Object> factory) {
            PulsarReaderContainerProperties properties = new PulsarReaderContainerProperties();
            properties.setStartMessageId(MessageId.earliest);
            return new DefaultPulsarReaderContainerFactory<>(factory, properties);
        }
    }
}
