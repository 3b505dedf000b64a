// Publishes values of many schemas with the stock Java client, one topic for each. Arguments: service URL, prefix of the topics.

import com.google.protobuf.Syntax;
import com.google.protobuf.Type;
import java.sql.Time;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.List;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.common.schema.KeyValue;
import org.apache.pulsar.common.schema.KeyValueEncodingType;
import org.apache.pulsar.client.impl.schema.ProtobufSchema;

public class SchemaClient {
    public static class Row {
        public String name;
        public int count;

        public Row() {
        }

        Row(String name, int count) {
            this.name = name;
            this.count = count;
        }
    }

    private final PulsarClient client;
    private final String prefix;

    private SchemaClient(PulsarClient client, String prefix) {
        this.client = client;
        this.prefix = prefix;
    }

    @SafeVarargs
    private <T> void publish(String topic, Schema<T> schema, T... values) throws Exception {
        try (Producer<T> producer = client.newProducer(schema).topic(prefix + topic).create()) {
            for (T value : values) {
                producer.send(value);
            }
        }
    }

    private void run() throws Exception {
        publish("instant", Schema.INSTANT, Instant.ofEpochSecond(1_700_000_000L, 123_456_789));
        publish("date", Schema.LOCAL_DATE, LocalDate.of(1969, 7, 20));
        publish("time", Schema.LOCAL_TIME, LocalTime.of(23, 59, 59, 999_999_999));
        publish("datetime", Schema.LOCAL_DATE_TIME, LocalDateTime.of(2026, 11, 25, 12, 0, 0, 1_500));
        publish("clock", Schema.TIME, new Time(3_600_000L));
        Row row = new Row("a", 1);
        for (KeyValueEncodingType encoding : KeyValueEncodingType.values()) {
            publish("avro-" + encoding, Schema.KeyValue(Schema.INT32, Schema.AVRO(Row.class), encoding),
                new KeyValue<>(7, row), new KeyValue<>(8, null));
            publish("json-" + encoding, Schema.KeyValue(Schema.JSON(Row.class), Schema.JSON(Row.class), encoding),
                new KeyValue<>(row, new Row("b", 2)), new KeyValue<>(row, null));
            KeyValueEncodingType other =
                encoding == KeyValueEncodingType.INLINE ? KeyValueEncodingType.SEPARATED : KeyValueEncodingType.INLINE;
            String topic = other + "-joins-" + encoding;  // The registry has one version for both.
            publish(topic, Schema.KeyValue(Schema.INT32, Schema.AVRO(Row.class), encoding), new KeyValue<>(7, row));
            publish(topic, Schema.KeyValue(Schema.INT32, Schema.AVRO(Row.class), other), new KeyValue<>(8, row));
        }
        publish("protobuf", ProtobufSchema.of(Type.class), Type.newBuilder().setName("a").addAllOneofs(List.of("x", "y"))
            .setSyntax(Syntax.SYNTAX_PROTO3).build(), Type.getDefaultInstance());
    }

    public static void main(String[] arguments) throws Exception {
        try (PulsarClient client = PulsarClient.builder().serviceUrl(arguments[0]).build()) {
            new SchemaClient(client, arguments[1]).run();
        }
        System.out.println("published");
        System.exit(0);
    }
}
