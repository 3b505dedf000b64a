import java.util.concurrent.atomic.AtomicReference;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Schema;

/** Publishes messages to a Pulsar topic by a default producer: SERVER TOPIC COUNT KIND SIZE PARTS RATE. Waits after a part. */
final class PulsarLoad {
    public static void main(String[] words) throws Exception {
        int count = Integer.parseInt(words[2]);
        int parts = Integer.parseInt(words[5]);
        Payloads payloads = new Payloads(words[3], Integer.parseInt(words[4]));
        AtomicReference<Throwable> failed = new AtomicReference<>();
        try (PulsarClient client = PulsarClient.builder().serviceUrl(words[0]).build()) {
            Pace pace = new Pace(Double.parseDouble(words[6]));
            for (int part = 0; part < parts; part++) {
                int last = (int) ((long) count * (part + 1) / parts);
                try (var producer = client.newProducer(Schema.BYTES).topic(words[1]).blockIfQueueFull(true).create()) {
                    for (int number = (int) ((long) count * part / parts); number < last; number++) {
                        pace.next();
                        producer.sendAsync(payloads.next()).exceptionally(error -> {
                            failed.set(error);
                            return null;
                        });
                    }
                    producer.flush();
                }
                if (failed.get() != null) {
                    throw new IllegalStateException(failed.get());
                }
                System.out.println(payloads.checksum());
                System.in.read();
            }
        }
    }
}
