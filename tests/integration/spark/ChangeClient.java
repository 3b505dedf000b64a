// Publishes changes of a table as Debezium does, with the stock Java client: a KEY_VALUE schema of two Avro schemas, the key as that of
// the message. Arguments: service URL, topic, 1 or 2. The second step has another version of the schema.

import java.io.ByteArrayOutputStream;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.EncoderFactory;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.common.schema.KeyValue;
import org.apache.pulsar.common.schema.KeyValueEncodingType;

public class ChangeClient {
    private static final String KEY = "{'type': 'record', 'name': 'Key', 'fields': [{'name': 'id', 'type': 'int'}]}";
    private static final String ENVELOPE = "{'type': 'record', 'name': 'Envelope', 'fields': ["
        + "{'name': 'before', 'type': ['null', {'type': 'record', 'name': 'Value', 'fields': ["
        + "{'name': 'id', 'type': 'int'}, {'name': 'name', 'type': ['null', 'string'], 'default': null}%s]}], 'default': null},"
        + "{'name': 'after', 'type': ['null', 'Value'], 'default': null},"
        + "{'name': 'op', 'type': 'string'}, {'name': 'ts_ms', 'type': 'long'}]}";
    private static final String MORE = ", {'name': 'price', 'type': ['null', 'double'], 'default': null}";

    private final Schema keys = parsed(KEY);
    private final Schema envelopes;
    private final Producer<KeyValue<byte[], byte[]>> producer;

    private ChangeClient(PulsarClient client, String topic, String more) throws Exception {
        envelopes = parsed(String.format(ENVELOPE, more));
        producer = client.newProducer(org.apache.pulsar.client.api.Schema.KeyValue(
            org.apache.pulsar.client.api.Schema.NATIVE_AVRO(keys),
            org.apache.pulsar.client.api.Schema.NATIVE_AVRO(envelopes), KeyValueEncodingType.SEPARATED)).topic(topic).create();
    }

    private static Schema parsed(String text) {
        return new Schema.Parser().parse(text.replace('\'', '"'));
    }

    private static byte[] encoded(GenericRecord record) throws Exception {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        BinaryEncoder encoder = EncoderFactory.get().binaryEncoder(out, null);
        new GenericDatumWriter<GenericRecord>(record.getSchema()).write(record, encoder);
        encoder.flush();
        return out.toByteArray();
    }

    private void change(String op, int id, String name, Double price) throws Exception {
        GenericRecord key = new GenericData.Record(keys);
        key.put("id", id);
        GenericRecord row = new GenericData.Record(envelopes.getField("before").schema().getTypes().get(1));
        row.put("id", id);
        row.put("name", name);
        if (price != null) {
            row.put("price", price);
        }
        GenericRecord envelope = new GenericData.Record(envelopes);
        envelope.put(op.equals("d") ? "before" : "after", row);
        envelope.put("op", op);
        envelope.put("ts_ms", System.currentTimeMillis());
        producer.newMessage().value(new KeyValue<>(encoded(key), encoded(envelope))).send();
        if (op.equals("d")) {
            producer.newMessage().value(new KeyValue<>(encoded(key), null)).send();  // for compaction
        }
    }

    public static void main(String[] arguments) throws Exception {
        try (PulsarClient client = PulsarClient.builder().serviceUrl(arguments[0]).build()) {
            if (arguments[2].equals("1")) {
                ChangeClient first = new ChangeClient(client, arguments[1], "");
                for (int id = 1; id <= 4; id++) {
                    first.change("c", id, "name-" + id, null);
                }
                first.change("u", 2, "changed", null);
                first.change("d", 4, "name-4", null);
            } else {
                ChangeClient second = new ChangeClient(client, arguments[1], MORE);
                second.change("u", 1, "dear", 9.5);
                second.change("d", 3, "name-3", null);
                second.change("c", 5, "name-5", 0.5);
                second.change("c", 4, "again", null);
            }
        }
        System.out.println("published");
        System.exit(0);
    }
}
