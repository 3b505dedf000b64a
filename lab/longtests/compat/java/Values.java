import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.schema.GenericObject;
import org.apache.pulsar.client.api.schema.GenericRecord;
import org.apache.pulsar.client.api.schema.GenericRecordBuilder;
import org.apache.pulsar.client.api.schema.GenericSchema;
import org.apache.pulsar.common.schema.SchemaInfo;
import org.apache.pulsar.common.schema.SchemaType;

/** Conversion of the values of one topic between the protocol and the client. */
final class Values {
    /** Schema for the client. */
    final Schema<Object> schema;
    /** The type of each field of a json or avro schema; null for other schemas. */
    private final Map<String, String> types;
    private final GenericSchema<GenericRecord> records;

    private Values(Schema<?> schema, Map<String, String> types, GenericSchema<GenericRecord> records) {
        this.schema = any(schema);
        this.types = types;
        this.records = records;
    }

    @SuppressWarnings("unchecked") // values are objects everywhere
    private static Schema<Object> any(Schema<?> schema) {
        return (Schema<Object>) schema;
    }

    /** Makes the conversion for a schema of the protocol. */
    static Values of(JsonElement spec, String otherwise) {
        if (spec != null && spec.isJsonObject()) {
            return record(spec.getAsJsonObject());
        }
        String name = spec == null ? otherwise : spec.getAsString();
        return switch (name) {
            case "bytes" -> new Values(Schema.BYTES, null, null);
            case "string" -> new Values(Schema.STRING, null, null);
            case "auto_consume" -> new Values(Schema.AUTO_CONSUME(), null, null);
            default -> throw new Errors.Unsupported("schema " + name);
        };
    }

    private static Values record(JsonObject spec) {
        JsonObject definition = spec.getAsJsonObject("definition");
        GenericSchema<GenericRecord> records = Schema.generic(SchemaInfo.builder()
                .name(definition.get("name").getAsString())
                .type(spec.get("type").getAsString().equals("avro") ? SchemaType.AVRO : SchemaType.JSON)
                .schema(definition.toString().getBytes(StandardCharsets.UTF_8))
                .properties(Map.of())
                .build());
        Map<String, String> types = new LinkedHashMap<>();
        for (JsonElement field : definition.getAsJsonArray("fields")) {
            JsonElement type = field.getAsJsonObject().get("type");
            types.put(field.getAsJsonObject().get("name").getAsString(), typeName(type));
        }
        return new Values(records, types, records);
    }

    /** Returns the type of a field; for a union, the one that is not null. */
    private static String typeName(JsonElement type) {
        if (type.isJsonArray()) {
            JsonArray union = type.getAsJsonArray();
            return typeName(union.get(0).getAsString().equals("null") ? union.get(1) : union.get(0));
        }
        return type.getAsString();
    }

    /** Converts a value of the protocol for a producer. */
    Object content(JsonElement value) {
        if (records != null) {
            GenericRecordBuilder builder = records.newRecordBuilder();
            types.forEach((name, type) -> builder.set(name, field(value.getAsJsonObject().get(name), type)));
            return builder.build();
        }
        String text = value.getAsString();
        return schema == any(Schema.STRING) ? text : Base64.getDecoder().decode(text);
    }

    private static Object field(JsonElement value, String type) {
        if (value == null || value.isJsonNull()) {
            return null;
        }
        return switch (type) {
            case "int" -> (Object) value.getAsInt();
            case "long" -> value.getAsLong();
            case "boolean" -> value.getAsBoolean();
            default -> value.getAsString();
        };
    }

    /** Converts a received value for the protocol. */
    static JsonElement json(Object value) {
        if (value == null) {
            return JsonNull.INSTANCE;
        }
        if (value instanceof byte[] bytes) {
            return new JsonPrimitive(Base64.getEncoder().encodeToString(bytes));
        }
        if (value instanceof GenericRecord record && !record.getFields().isEmpty()) {
            JsonObject fields = new JsonObject();
            record.getFields().forEach(field -> fields.add(field.getName(), json(record.getField(field))));
            return fields;
        }
        if (value instanceof GenericObject other) {
            return json(other.getNativeObject());
        }
        if (value instanceof Number number) {
            return new JsonPrimitive(number);
        }
        if (value instanceof Boolean flag) {
            return new JsonPrimitive(flag);
        }
        return new JsonPrimitive(value.toString());
    }
}
