import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;

/** The fields of one request. Each is read once. Fields that are left at the end are not supported by this client. */
final class Fields {
    private final Map<String, JsonElement> rest = new LinkedHashMap<>();

    Fields(JsonObject request) {
        request.entrySet().stream()
                .filter(field -> !field.getValue().isJsonNull())
                .forEach(field -> rest.put(field.getKey(), field.getValue()));
    }

    boolean has(String name) {
        return rest.containsKey(name);
    }

    /** Returns a field's value, or null. */
    JsonElement take(String name) {
        return rest.remove(name);
    }

    JsonElement need(String name) {
        JsonElement value = rest.remove(name);
        if (value == null) {
            throw new Errors.BadRequest(name + " is missing");
        }
        return value;
    }

    String text(String name, String otherwise) {
        JsonElement value = take(name);
        return value == null ? otherwise : value.getAsString();
    }

    String needText(String name) {
        return need(name).getAsString();
    }

    long number(String name, long otherwise) {
        JsonElement value = take(name);
        return value == null ? otherwise : value.getAsLong();
    }

    int integer(String name, int otherwise) {
        return Math.toIntExact(number(name, otherwise));
    }

    boolean flag(String name, boolean otherwise) {
        JsonElement value = take(name);
        return value == null ? otherwise : value.getAsBoolean();
    }

    /** Returns a field with an object, or null. */
    Fields object(String name) {
        JsonElement value = take(name);
        return value == null ? null : new Fields(value.getAsJsonObject());
    }

    /** Returns a field with an object of texts, or null. */
    Map<String, String> texts(String name) {
        JsonElement value = take(name);
        if (value == null) {
            return null;
        }
        Map<String, String> texts = new LinkedHashMap<>();
        value.getAsJsonObject().entrySet().forEach(entry -> texts.put(entry.getKey(), entry.getValue().getAsString()));
        return texts;
    }

    List<Fields> objects(String name) {
        List<Fields> objects = new ArrayList<>();
        need(name).getAsJsonArray().forEach(element -> objects.add(new Fields(element.getAsJsonObject())));
        return objects;
    }

    static List<String> list(JsonElement array) {
        List<String> texts = new ArrayList<>();
        JsonArray elements = array.getAsJsonArray();
        elements.forEach(element -> texts.add(element.getAsString()));
        return texts;
    }

    /** Throws Unsupported if any field is left. */
    void end() {
        only(Set.of());
    }

    /** Throws Unsupported if any other field is left. */
    void only(Set<String> known) {
        TreeSet<String> unknown = new TreeSet<>(rest.keySet());
        unknown.removeAll(known);
        if (!unknown.isEmpty()) {
            throw new Errors.Unsupported("no option for " + String.join(", ", unknown));
        }
    }
}
