import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
import java.lang.reflect.Method;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.ConsumerEventListener;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Reader;
import org.apache.pulsar.common.api.EncryptionContext;

/** The object of a handle, with its received messages and events. */
final class Held implements ConsumerEventListener {
    private static final long serialVersionUID = 1;
    /** Method that returns whether a payload is still encrypted; since client 4.2. */
    private static final Optional<Method> IS_ENCRYPTED = isEncrypted();

    /** The object of the client's API. */
    transient Object thing;
    /** Conversion of its values. */
    final transient Values values;
    /** Messages of a listener; null without a listener. */
    final transient BlockingQueue<Message<?>> heard;
    /** Whether a consumer has a receiver queue. */
    transient boolean queue = true;
    private transient Future<? extends Message<?>> asked;
    private final transient Map<String, Message<?>> received = new ConcurrentHashMap<>();
    private final transient List<List<String>> events = new CopyOnWriteArrayList<>();

    Held(Object thing) {
        this(Values.of(null, "bytes"), false);
        this.thing = thing;
    }

    Held(Values values, boolean listener) {
        this.values = values;
        this.heard = listener ? new LinkedBlockingQueue<>() : null;
    }

    private static Optional<Method> isEncrypted() {
        try {
            return Optional.of(EncryptionContext.class.getMethod("isEncrypted"));
        } catch (NoSuchMethodException older) {
            return Optional.empty();
        }
    }

    /** Returns the next message. */
    Message<?> receive(int timeoutMs) throws Exception {
        Message<?> message;
        if (heard != null) {
            message = heard.poll(timeoutMs, TimeUnit.MILLISECONDS);
        } else if (thing instanceof Reader<?> reader) {
            message = reader.readNext(timeoutMs, TimeUnit.MILLISECONDS);
        } else if (queue) {
            message = ((Consumer<?>) thing).receive(timeoutMs, TimeUnit.MILLISECONDS);
        } else {
            message = receiveOne((Consumer<?>) thing, timeoutMs);
        }
        if (message == null) {
            throw new Errors.NoMessage();
        }
        return keep(message);
    }

    /** A consumer without a queue supports no timeout. A message that arrives after the timeout is for the next call. */
    private synchronized Message<?> receiveOne(Consumer<?> consumer, int timeoutMs) throws Exception {
        if (asked == null) {
            asked = consumer.receiveAsync();
        }
        try {
            Message<?> message = asked.get(timeoutMs, TimeUnit.MILLISECONDS);
            asked = null;
            return message;
        } catch (TimeoutException nothing) {
            return null;
        } catch (ExecutionException failed) {
            asked = null;
            throw failed;
        }
    }

    Message<?> keep(Message<?> message) {
        received.put(Ids.text(message.getMessageId()), message);
        return message;
    }

    /** Returns the last received message with this id, or null. */
    Message<?> message(String id) {
        return received.get(id);
    }

    @Override
    public void becameActive(Consumer<?> consumer, int partition) {
        events.add(List.of("active", consumer.getTopic()));
    }

    @Override
    public void becameInactive(Consumer<?> consumer, int partition) {
        events.add(List.of("inactive", consumer.getTopic()));
    }

    JsonArray events() {
        JsonArray all = new JsonArray();
        for (List<String> event : events) {
            JsonArray pair = new JsonArray();
            event.forEach(pair::add);
            all.add(pair);
        }
        return all;
    }

    /** Returns a received message as in an answer. */
    JsonObject json(Message<?> message) throws ReflectiveOperationException {
        JsonObject json = new JsonObject();
        Optional<EncryptionContext> encryption = message.getEncryptionCtx();
        boolean encrypted = false;
        if (encryption.isEmpty()) {
            json.addProperty("encrypted", false);
        } else if (IS_ENCRYPTED.isPresent()) {
            encrypted = (Boolean) IS_ENCRYPTED.get().invoke(encryption.get());
            json.addProperty("encrypted", encrypted);
        }
        json.addProperty("id", Ids.text(message.getMessageId()));
        json.addProperty("topic", message.getTopicName());
        json.add("value", Values.json(encrypted ? message.getData() : message.getValue()));
        json.add("key", message.hasKey() ? new JsonPrimitive(message.getKey()) : JsonNull.INSTANCE);
        json.add("ordering_key", base64(message.hasOrderingKey() ? message.getOrderingKey() : null));
        JsonObject properties = new JsonObject();
        message.getProperties().forEach(properties::addProperty);
        json.add("properties", properties);
        json.addProperty("event_time", message.getEventTime());
        json.addProperty("publish_time", message.getPublishTime());
        json.addProperty("producer", message.getProducerName());
        json.addProperty("redelivery_count", message.getRedeliveryCount());
        json.addProperty("sequence_id", message.getSequenceId());
        byte[] version = message.getSchemaVersion();
        json.add("index", number(message.getIndex()));
        json.add("broker_time", number(message.getBrokerPublishTime()));
        json.add("schema_version", base64(version == null || version.length == 0 ? null : version));
        return json;
    }

    private static JsonElement number(Optional<Long> value) {
        return value.isEmpty() ? JsonNull.INSTANCE : new JsonPrimitive(value.get());
    }

    private static JsonElement base64(byte[] bytes) {
        return bytes == null ? JsonNull.INSTANCE : new JsonPrimitive(Base64.getEncoder().encodeToString(bytes));
    }
}
