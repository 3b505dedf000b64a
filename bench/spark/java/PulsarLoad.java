import java.util.concurrent.atomic.AtomicReference;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Schema;

/** Publishes messages to a Pulsar topic by a default producer: SERVER TOPIC COUNT SIZE PARTS. Waits for a line after each part. */
final class PulsarLoad {
    public static void main(String[] words) throws Exception {
        int count = Integer.parseInt(words[2]);
        int parts = Integer.parseInt(words[4]);
        Payloads payloads = new Payloads(Integer.parseInt(words[3]));
        AtomicReference<Throwable> failed = new AtomicReference<>();
        try (PulsarClient client = PulsarClient.builder().serviceUrl(words[0]).build()) {
            for (int part = 0; part < parts; part++) {
                int last = (int) ((long) count * (part + 1) / parts);
                try (var producer = client.newProducer(Schema.BYTES).topic(words[1]).blockIfQueueFull(true).create()) {
                    for (int number = (int) ((long) count * part / parts); number < last; number++) {
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
