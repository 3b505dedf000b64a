import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.PulsarVersion;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.ConsumerStats;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Reader;
import org.apache.pulsar.client.api.TableView;
import org.apache.pulsar.client.api.TopicMessageId;
import org.apache.pulsar.client.api.TypedMessageBuilder;
import org.apache.pulsar.client.api.transaction.Transaction;

/** The operations of requests; see PROTOCOL.md. */
final class Operations {
    /** Optional fields of the operations on a handle; those not listed have none. */
    private static final Map<String, Set<String>> FIELDS = Map.ofEntries(
            Map.entry("partitions", Set.of("topic")),
            Map.entry("send", Options.MESSAGE_FIELDS),
            Map.entry("send_many", Set.of("messages")),
            Map.entry("receive", Set.of("timeout_ms")),
            Map.entry("receive_many", Set.of("count", "timeout_ms", "ack")),
            Map.entry("ack", Set.of("id", "txn")),
            Map.entry("ack_list", Set.of("ids", "txn")),
            Map.entry("ack_cumulative", Set.of("id", "txn")),
            Map.entry("nack", Set.of("id")),
            Map.entry("reconsume_later", Set.of("id", "delay_ms", "properties")),
            Map.entry("seek", Set.of("to")),
            Map.entry("unsubscribe", Set.of("force")),
            Map.entry("table_get", Set.of("key")));

    private final Map<String, Held> handles = new ConcurrentHashMap<>();
    private final Ids ids = new Ids();

    /** Runs one request; returns the `ok` of its answer. */
    JsonObject run(String op, Fields fields) throws Exception {
        return switch (op) {
            case "hello" -> hello();
            case "client" -> client(fields);
            case "producer" -> producer(fields);
            case "consumer" -> consumer(fields);
            case "reader" -> reader(fields);
            case "table_view" -> tableView(fields);
            case "txn" -> txn(fields);
            default -> on(op, held(fields, "on"), fields);
        };
    }

    private JsonObject on(String op, Held held, Fields fields) throws Exception {
        fields.only(FIELDS.getOrDefault(op, Set.of()));
        return switch (op) {
            case "partitions" -> partitions((PulsarClient) held.thing, fields);
            case "close" -> close(held);
            case "send" -> send(held, fields);
            case "send_many" -> sendMany(held, fields);
            case "last_sequence_id" -> one("last_sequence_id", ((Producer<?>) held.thing).getLastSequenceId());
            case "connected" -> connected(held);
            case "receive" -> receive(held, fields);
            case "receive_many" -> receiveMany(held, fields);
            case "batch_receive" -> batchReceive(held);
            case "ack" -> ack(held, fields);
            case "ack_list" -> ackList(held, fields);
            case "ack_cumulative" -> ackCumulative(held, fields);
            case "nack" -> nack(held, fields);
            case "reconsume_later" -> reconsumeLater(held, fields);
            case "redeliver" -> redeliver(held);
            case "seek" -> seek(held, fields);
            case "unsubscribe" -> unsubscribe(held, fields);
            case "last_message_id" -> lastMessageId(held);
            case "reached_end" -> reachedEnd(held);
            case "pause" -> pause(held, true);
            case "resume" -> pause(held, false);
            case "events" -> one("events", held.events());
            case "stats" -> stats(held);
            case "has_next" -> one("has", ((Reader<?>) held.thing).hasMessageAvailable());
            case "table" -> table(held);
            case "table_get" -> one("value", Values.json(((TableView<?>) held.thing).get(fields.needText("key"))));
            case "commit" -> done(((Transaction) held.thing).commit());
            case "abort" -> done(((Transaction) held.thing).abort());
            default -> throw new Errors.Unsupported("no " + op);
        };
    }

    private static JsonObject hello() {
        JsonObject answer = one("client", "java");
        answer.addProperty("version", PulsarVersion.getVersion());
        return answer;
    }

    // Clients, producers, consumers, readers, table views, transactions

    private JsonObject client(Fields fields) throws Exception {
        String name = fields.needText("as");
        handles.put(name, new Held(Options.client(fields).build()));
        return new JsonObject();
    }

    private JsonObject producer(Fields fields) throws Exception {
        String name = fields.needText("as");
        PulsarClient client = (PulsarClient) held(fields, "client").thing;
        Held held = new Held(Values.of(fields.take("schema"), "bytes"), false);
        Producer<Object> producer = Options.producer(client.newProducer(held.values.schema), fields).create();
        held.thing = producer;
        handles.put(name, held);
        JsonObject answer = one("name", producer.getProducerName());
        answer.addProperty("last_sequence_id", producer.getLastSequenceId());
        return answer;
    }

    private JsonObject consumer(Fields fields) throws Exception {
        String name = fields.needText("as");
        PulsarClient client = (PulsarClient) held(fields, "client").thing;
        Held held = new Held(Values.of(fields.take("schema"), "bytes"), fields.flag("listener", false));
        held.thing = Options.consumer(client.newConsumer(held.values.schema), fields, held).subscribe();
        handles.put(name, held);
        return new JsonObject();
    }

    private JsonObject reader(Fields fields) throws Exception {
        String name = fields.needText("as");
        PulsarClient client = (PulsarClient) held(fields, "client").thing;
        Held held = new Held(Values.of(fields.take("schema"), "bytes"), fields.flag("listener", false));
        held.thing = Options.reader(client.newReader(held.values.schema), fields, held, ids).create();
        handles.put(name, held);
        return new JsonObject();
    }

    private JsonObject tableView(Fields fields) throws Exception {
        String name = fields.needText("as");
        PulsarClient client = (PulsarClient) held(fields, "client").thing;
        Held held = new Held(Values.of(fields.take("schema"), "string"), false);
        String topic = fields.needText("topic");
        fields.end();
        held.thing = client.newTableView(held.values.schema).topic(topic).create();
        handles.put(name, held);
        return new JsonObject();
    }

    private JsonObject txn(Fields fields) throws Exception {
        String name = fields.needText("as");
        PulsarClient client = (PulsarClient) held(fields, "client").thing;
        long timeout = fields.number("timeout_ms", 60_000);
        fields.end();
        handles.put(name, new Held(
                client.newTransaction().withTransactionTimeout(timeout, TimeUnit.MILLISECONDS).build().get()));
        return new JsonObject();
    }

    private static JsonObject partitions(PulsarClient client, Fields fields) throws Exception {
        JsonArray topics = new JsonArray();
        client.getPartitionsForTopic(fields.needText("topic"), true).get().forEach(topics::add);
        return one("topics", topics);
    }

    private static JsonObject close(Held held) throws Exception {
        if (!(held.thing instanceof AutoCloseable thing)) {
            throw new Errors.Unsupported("no close of a transaction");
        }
        thing.close();
        return new JsonObject();
    }

    // Producers

    private JsonObject send(Held held, Fields fields) throws Exception {
        return one("id", ids.tell(message(held, fields).send()));
    }

    private JsonObject sendMany(Held held, Fields fields) throws Exception {
        List<CompletableFuture<MessageId>> sends = new ArrayList<>();
        for (Fields message : fields.objects("messages")) {
            sends.add(message(held, message).sendAsync());
        }
        ((Producer<?>) held.thing).flush();
        JsonArray texts = new JsonArray();
        for (CompletableFuture<MessageId> send : sends) {
            texts.add(ids.tell(send.get()));
        }
        return one("ids", texts);
    }

    @SuppressWarnings("unchecked") // every producer has a schema of objects
    private TypedMessageBuilder<Object> message(Held held, Fields fields) {
        Producer<Object> producer = (Producer<Object>) held.thing;
        Transaction txn = transaction(fields);
        return Options.message(txn == null ? producer.newMessage() : producer.newMessage(txn), fields, held.values);
    }

    private static JsonObject connected(Held held) {
        if (held.thing instanceof Producer<?> producer) {
            return one("connected", producer.isConnected());
        }
        if (held.thing instanceof Reader<?> reader) {
            return one("connected", reader.isConnected());
        }
        return one("connected", ((Consumer<?>) held.thing).isConnected());
    }

    // Consumers and readers

    private static JsonObject receive(Held held, Fields fields) throws Exception {
        return held.json(held.receive(fields.integer("timeout_ms", 10_000)));
    }

    private static JsonObject receiveMany(Held held, Fields fields) throws Exception {
        int count = fields.need("count").getAsInt();
        int timeoutMs = fields.integer("timeout_ms", 10_000);
        boolean ack = fields.flag("ack", false);
        JsonArray messages = new JsonArray();
        while (messages.size() < count) {
            Message<?> message;
            try {
                message = held.receive(timeoutMs);
            } catch (Errors.NoMessage end) {
                break;
            }
            messages.add(held.json(message));
            if (ack) {
                ((Consumer<?>) held.thing).acknowledge(message);
            }
        }
        return one("messages", messages);
    }

    private static JsonObject batchReceive(Held held) throws Exception {
        JsonArray messages = new JsonArray();
        for (Message<?> message : ((Consumer<?>) held.thing).batchReceive()) {
            messages.add(held.json(held.keep(message)));
        }
        return one("messages", messages);
    }

    private JsonObject ack(Held held, Fields fields) throws Exception {
        Consumer<?> consumer = (Consumer<?>) held.thing;
        MessageId id = id(held, fields.needText("id"));
        Transaction txn = transaction(fields);
        if (txn != null) {
            return done(consumer.acknowledgeAsync(id, txn));
        }
        consumer.acknowledge(id);
        return new JsonObject();
    }

    private JsonObject ackList(Held held, Fields fields) throws Exception {
        Consumer<?> consumer = (Consumer<?>) held.thing;
        List<MessageId> list = Fields.list(fields.need("ids")).stream().map(text -> id(held, text)).toList();
        Transaction txn = transaction(fields);
        if (txn != null) {
            return done(consumer.acknowledgeAsync(list, txn));
        }
        consumer.acknowledge(list);
        return new JsonObject();
    }

    private JsonObject ackCumulative(Held held, Fields fields) throws Exception {
        Consumer<?> consumer = (Consumer<?>) held.thing;
        MessageId id = id(held, fields.needText("id"));
        Transaction txn = transaction(fields);
        if (txn != null) {
            return done(consumer.acknowledgeCumulativeAsync(id, txn));
        }
        consumer.acknowledgeCumulative(id);
        return new JsonObject();
    }

    private JsonObject nack(Held held, Fields fields) {
        ((Consumer<?>) held.thing).negativeAcknowledge(id(held, fields.needText("id")));
        return new JsonObject();
    }

    private JsonObject reconsumeLater(Held held, Fields fields) throws Exception {
        Consumer<?> consumer = (Consumer<?>) held.thing;
        String id = fields.needText("id");
        Message<?> message = held.message(id);
        if (message == null) {
            throw new Errors.BadRequest(id + ": this consumer has not received it");
        }
        long delay = fields.need("delay_ms").getAsLong();
        Map<String, String> properties = fields.texts("properties");
        if (properties == null) {
            consumer.reconsumeLater(message, delay, TimeUnit.MILLISECONDS);
        } else {
            consumer.reconsumeLater(message, properties, delay, TimeUnit.MILLISECONDS);
        }
        return new JsonObject();
    }

    private static JsonObject redeliver(Held held) {
        ((Consumer<?>) held.thing).redeliverUnacknowledgedMessages();
        return new JsonObject();
    }

    private JsonObject seek(Held held, Fields fields) throws Exception {
        JsonElement to = fields.need("to");
        if (to.isJsonObject()) {
            long time = to.getAsJsonObject().get("time").getAsLong();
            if (held.thing instanceof Reader<?> reader) {
                reader.seek(time);
            } else {
                ((Consumer<?>) held.thing).seek(time);
            }
        } else {
            MessageId id = id(held, to.getAsString());
            if (held.thing instanceof Reader<?> reader) {
                reader.seek(id);
            } else {
                ((Consumer<?>) held.thing).seek(id);
            }
        }
        return new JsonObject();
    }

    private static JsonObject unsubscribe(Held held, Fields fields) throws Exception {
        ((Consumer<?>) held.thing).unsubscribe(fields.flag("force", false));
        return new JsonObject();
    }

    private JsonObject lastMessageId(Held held) throws Exception {
        List<TopicMessageId> last = held.thing instanceof Reader<?> reader
                ? reader.getLastMessageIds()
                : ((Consumer<?>) held.thing).getLastMessageIds();
        JsonArray entries = new JsonArray();
        last.stream().sorted(Comparator.comparing(TopicMessageId::getOwnerTopic)).forEach(id -> {
            JsonObject entry = one("topic", id.getOwnerTopic());
            entry.addProperty("id", ids.tell(id));
            entries.add(entry);
        });
        return one("ids", entries);
    }

    private static JsonObject reachedEnd(Held held) {
        return one("reached", held.thing instanceof Reader<?> reader
                ? reader.hasReachedEndOfTopic()
                : ((Consumer<?>) held.thing).hasReachedEndOfTopic());
    }

    private static JsonObject pause(Held held, boolean stop) {
        if (held.thing instanceof Reader<?>) {
            throw new Errors.Unsupported("no pause of a reader");
        }
        Consumer<?> consumer = (Consumer<?>) held.thing;
        if (stop) {
            consumer.pause();
        } else {
            consumer.resume();
        }
        return new JsonObject();
    }

    @SuppressWarnings("deprecation") // no other method counts messages
    private static JsonObject stats(Held held) {
        ConsumerStats stats = ((Consumer<?>) held.thing).getStats();
        // The totals include the current interval only after its end.
        JsonObject answer = one("received", stats.getTotalMsgsReceived() + stats.getNumMsgsReceived());
        answer.addProperty("acked", stats.getTotalAcksSent() + stats.getNumAcksSent());
        return answer;
    }

    private static JsonObject table(Held held) {
        JsonObject entries = new JsonObject();
        ((TableView<?>) held.thing).forEach((key, value) -> entries.add(key, Values.json(value)));
        return one("entries", entries);
    }

    // Handles, ids, answers

    private Held held(Fields fields, String field) {
        String name = fields.needText(field);
        Held held = handles.get(name);
        if (held == null) {
            throw new Errors.BadRequest(name + ": no such handle");
        }
        return held;
    }

    private Transaction transaction(Fields fields) {
        return fields.has("txn") ? (Transaction) held(fields, "txn").thing : null;
    }

    private MessageId id(Held held, String text) {
        if (Ids.isStored(text)) {
            return Ids.readBack(id(held, Ids.withoutMark(text)));
        }
        Message<?> message = held.message(text);
        return message != null ? message.getMessageId() : ids.of(text);
    }

    private static JsonObject done(CompletableFuture<Void> future) throws Exception {
        future.get();
        return new JsonObject();
    }

    private static JsonObject one(String name, JsonElement value) {
        JsonObject answer = new JsonObject();
        answer.add(name, value);
        return answer;
    }

    private static JsonObject one(String name, String value) {
        return one(name, new JsonPrimitive(value));
    }

    private static JsonObject one(String name, Number value) {
        return one(name, new JsonPrimitive(value));
    }

    private static JsonObject one(String name, Boolean value) {
        return one(name, new JsonPrimitive(value));
    }
}
