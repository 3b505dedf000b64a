import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Publishes messages to a new Kafka topic by a default producer with one request in flight: SERVER TOPIC COUNT KIND SIZE PARTITIONS
 * RATE. With 0 partitions the topic exists.
 */
final class KafkaLoad {
    public static void main(String[] words) throws Exception {
        int count = Integer.parseInt(words[2]);
        Payloads payloads = new Payloads(words[3], Integer.parseInt(words[4]));
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", words[0]))) {
            if (Integer.parseInt(words[5]) > 0) {
                admin.createTopics(List.of(new NewTopic(words[1], Integer.parseInt(words[5]), (short) 1))).all().get();
            }
        }
        AtomicReference<Exception> failed = new AtomicReference<>();
        var bytes = new ByteArraySerializer();
        // One request at a time: with more, a producer of many new partitions may get its sequence numbers out of order, for good.
        Map<String, Object> settings = Map.of("bootstrap.servers", words[0], "max.in.flight.requests.per.connection", 1);
        try (var producer = new KafkaProducer<>(settings, bytes, bytes)) {
            Pace pace = new Pace(Double.parseDouble(words[6]));
            for (int number = 0; number < count; number++) {
                pace.next();
                producer.send(new ProducerRecord<>(words[1], payloads.next()), (sent, error) -> {
                    if (error != null) {
                        failed.set(error);
                    }
                });
            }
            producer.flush();
        }
        if (failed.get() != null) {
            throw failed.get();
        }
        System.out.println(payloads.checksum());
    }
}
