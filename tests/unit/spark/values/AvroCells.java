import com.fasterxml.jackson.databind.*;
import com.fasterxml.jackson.databind.node.*;
import java.io.File;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.time.*;
import java.time.temporal.ChronoUnit;
import java.util.*;
import org.apache.avro.*;
import org.apache.avro.data.TimeConversions;
import org.apache.avro.generic.*;
import org.apache.avro.io.*;

/** Adds to each cell of a table what Avro's Java library reads: `java`, or `error`. */
public class AvroCells {
    static final ObjectMapper JSON = new ObjectMapper();
    static final GenericData DATA = new GenericData();

    public static void main(String[] args) throws Exception {
        DATA.addLogicalTypeConversion(new Conversions.DecimalConversion());
        DATA.addLogicalTypeConversion(new TimeConversions.DateConversion());
        DATA.addLogicalTypeConversion(new TimeConversions.TimestampMillisConversion());
        DATA.addLogicalTypeConversion(new TimeConversions.TimestampMicrosConversion());
        ArrayNode cells = (ArrayNode) JSON.readTree(new File(args[0]));
        for (JsonNode cell : cells) {
            ObjectNode found = (ObjectNode) cell;
            found.remove(List.of("java", "error"));
            try {
                Schema writer = new Schema.Parser().parse(cell.get("writer").toString());
                Schema reader = new Schema.Parser().parse(cell.get("reader").toString());
                byte[] payload = HexFormat.of().parseHex(cell.get("payload").asText());
                Object value = new GenericDatumReader<>(writer, reader, DATA)
                    .read(null, DecoderFactory.get().binaryDecoder(payload, null));
                found.set("java", shown(value, reader));
            } catch (Exception error) {
                found.put("error", error.getClass().getSimpleName() + ": " + String.valueOf(error.getMessage()).split("\n")[0]);
            }
        }
        JSON.writerWithDefaultPrettyPrinter().writeValue(new File(args[0]), cells);
    }

    static JsonNode shown(Object value, Schema schema) {
        if (value == null) {
            return NullNode.getInstance();
        }
        if (schema.getType() == Schema.Type.UNION) {
            int branch = DATA.resolveUnion(schema, value);
            Schema member = schema.getTypes().get(branch);
            Set<Schema.Type> types = new HashSet<>();
            int number = 0, members = 0;
            for (int at = 0; at < schema.getTypes().size(); at++) {
                Schema.Type type = schema.getTypes().get(at).getType();
                if (type != Schema.Type.NULL) {
                    types.add(type);
                    members++;
                    number += at < branch ? 1 : 0;
                }
            }
            if (members == 1 || Set.of(Schema.Type.INT, Schema.Type.LONG).containsAll(types)
                || Set.of(Schema.Type.FLOAT, Schema.Type.DOUBLE).containsAll(types)) {
                return shown(value, member);
            }
            return JSON.createObjectNode().set("member" + number, shown(value, member));
        }
        if (value instanceof Instant instant) {
            return JSON.createObjectNode().put("micros", ChronoUnit.MICROS.between(Instant.EPOCH, instant));
        }
        if (value instanceof LocalDate date) {
            return JSON.createObjectNode().put("day", date.toEpochDay());
        }
        if (value instanceof BigDecimal decimal) {
            return JSON.createObjectNode().put("decimal", decimal.toPlainString());
        }
        if (value instanceof ByteBuffer buffer) {
            byte[] bytes = new byte[buffer.remaining()];
            buffer.duplicate().get(bytes);
            return JSON.createObjectNode().put("hex", HexFormat.of().formatHex(bytes));
        }
        if (value instanceof GenericFixed fixed) {
            return JSON.createObjectNode().put("hex", HexFormat.of().formatHex(fixed.bytes()));
        }
        if (value instanceof IndexedRecord record) {
            ObjectNode found = JSON.createObjectNode();
            for (Schema.Field field : schema.getFields()) {
                found.set(field.name(), shown(record.get(field.pos()), field.schema()));
            }
            return found;
        }
        if (value instanceof Collection<?> items) {
            ArrayNode found = JSON.createArrayNode();
            items.forEach(item -> found.add(shown(item, schema.getElementType())));
            return found;
        }
        if (value instanceof Map<?, ?> map) {
            ObjectNode found = JSON.createObjectNode();
            new TreeMap<Object, Object>(texts(map)).forEach((key, item) -> found.set((String) key, shown(item, schema.getValueType())));
            return JSON.createObjectNode().set("map", found);
        }
        if (value instanceof Number number && !(value instanceof Float) && !(value instanceof Double)) {
            return LongNode.valueOf(number.longValue());
        }
        if (value instanceof Number number) {
            double real = number.doubleValue();
            return Double.isFinite(real) ? DoubleNode.valueOf(real) : TextNode.valueOf(Double.toString(real));
        }
        return value instanceof Boolean flag ? BooleanNode.valueOf(flag) : TextNode.valueOf(value.toString());
    }

    static Map<Object, Object> texts(Map<?, ?> map) {
        Map<Object, Object> found = new HashMap<>();
        map.forEach((key, item) -> found.put(key.toString(), item));
        return found;
    }
}
