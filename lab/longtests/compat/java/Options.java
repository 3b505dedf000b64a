import com.google.gson.JsonElement;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.apache.pulsar.client.api.AuthenticationFactory;
import org.apache.pulsar.client.api.BatchReceivePolicy;
import org.apache.pulsar.client.api.BatcherBuilder;
import org.apache.pulsar.client.api.ClientBuilder;
import org.apache.pulsar.client.api.CompressionType;
import org.apache.pulsar.client.api.ConsumerBuilder;
import org.apache.pulsar.client.api.ConsumerCryptoFailureAction;
import org.apache.pulsar.client.api.DeadLetterPolicy;
import org.apache.pulsar.client.api.KeySharedPolicy;
import org.apache.pulsar.client.api.MessageRoutingMode;
import org.apache.pulsar.client.api.ProducerAccessMode;
import org.apache.pulsar.client.api.ProducerBuilder;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.Range;
import org.apache.pulsar.client.api.ReaderBuilder;
import org.apache.pulsar.client.api.RegexSubscriptionMode;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionMode;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.api.TypedMessageBuilder;

/** Applies the protocol's options to the client's builders. */
final class Options {
    static final Set<String> MESSAGE_FIELDS = Set.of(
            "value", "null", "key", "ordering_key", "properties", "event_time", "sequence_id", "deliver_after_ms",
            "deliver_at", "txn");
    private static final int MOST_OF_BATCH = 1 << 20;

    private Options() {}

    static ClientBuilder client(Fields fields) throws PulsarClientException {
        ClientBuilder builder = PulsarClient.builder()
                .serviceUrl(fields.needText("url"))
                .operationTimeout(fields.integer("operation_timeout_ms", 30_000), TimeUnit.MILLISECONDS)
                .enableTransaction(fields.flag("transactions", false));
        if (fields.has("tls_ca")) {
            builder.tlsTrustCertsFilePath(fields.needText("tls_ca"));
        }
        if (fields.has("listener_name")) {
            builder.listenerName(fields.needText("listener_name"));
        }
        Fields auth = fields.object("auth");
        if (auth != null) {
            switch (auth.needText("type")) {
                case "token" -> builder.authentication(AuthenticationFactory.token(auth.needText("token")));
                case "basic" -> builder.authentication(
                        "org.apache.pulsar.client.impl.auth.AuthenticationBasic",
                        Map.of("userId", auth.needText("user"), "password", auth.needText("password")));
                default -> throw new Errors.Unsupported("no such authentication");
            }
        }
        fields.end();
        return builder;
    }

    static ProducerBuilder<Object> producer(ProducerBuilder<Object> builder, Fields fields) {
        builder.topic(fields.needText("topic"))
                .compressionType(CompressionType.valueOf(fields.text("compression", "none").toUpperCase()))
                .messageRoutingMode(fields.text("routing", "round_robin").equals("single")
                        ? MessageRoutingMode.SinglePartition
                        : MessageRoutingMode.RoundRobinPartition)
                .accessMode(switch (fields.text("access", "shared")) {
                    case "exclusive" -> ProducerAccessMode.Exclusive;
                    case "wait" -> ProducerAccessMode.WaitForExclusive;
                    case "fencing" -> ProducerAccessMode.ExclusiveWithFencing;
                    default -> ProducerAccessMode.Shared;
                })
                .enableChunking(fields.flag("chunking", false))
                .sendTimeout(fields.integer("send_timeout_ms", 30_000), TimeUnit.MILLISECONDS)
                .maxPendingMessages(fields.integer("queue", 1000))
                .blockIfQueueFull(true);
        if (fields.has("name")) {
            builder.producerName(fields.needText("name"));
        }
        if (fields.has("initial_sequence_id")) {
            builder.initialSequenceId(fields.number("initial_sequence_id", 0));
        }
        if (fields.has("chunk_max_size")) {
            builder.chunkMaxMessageSize(fields.integer("chunk_max_size", 0));
        }
        if (fields.has("properties")) {
            builder.properties(fields.texts("properties"));
        }
        Fields batching = fields.object("batching");
        builder.enableBatching(batching != null);
        if (batching != null) {
            builder.batchingMaxMessages(batching.integer("max_messages", 10))
                    .batchingMaxPublishDelay(batching.number("max_delay_ms", 60_000), TimeUnit.MILLISECONDS)
                    .batchingMaxBytes(MOST_OF_BATCH);
            if (batching.flag("key_based", false)) {
                builder.batcherBuilder(BatcherBuilder.KEY_BASED);
            }
            batching.end();
        }
        Fields encrypt = fields.object("encrypt");
        if (encrypt != null) {
            String key = encrypt.needText("key");
            builder.addEncryptionKey(key).defaultCryptoKeyReader(Map.of(key, "file://" + encrypt.needText("public")));
        }
        fields.end();
        return builder;
    }

    static TypedMessageBuilder<Object> message(TypedMessageBuilder<Object> builder, Fields fields, Values values) {
        JsonElement value = fields.take("value");
        builder.value(fields.flag("null", false) || value == null ? null : values.content(value));
        if (fields.has("key")) {
            builder.key(fields.needText("key"));
        }
        if (fields.has("ordering_key")) {
            builder.orderingKey(Base64.getDecoder().decode(fields.needText("ordering_key")));
        }
        if (fields.has("properties")) {
            builder.properties(fields.texts("properties"));
        }
        if (fields.has("event_time")) {
            builder.eventTime(fields.number("event_time", 0));
        }
        if (fields.has("sequence_id")) {
            builder.sequenceId(fields.number("sequence_id", 0));
        }
        if (fields.has("deliver_after_ms")) {
            builder.deliverAfter(fields.number("deliver_after_ms", 0), TimeUnit.MILLISECONDS);
        }
        if (fields.has("deliver_at")) {
            builder.deliverAt(fields.number("deliver_at", 0));
        }
        fields.end();
        return builder;
    }

    static ConsumerBuilder<Object> consumer(ConsumerBuilder<Object> builder, Fields fields, Held held) {
        if (fields.has("topics")) {
            builder.topics(Fields.list(fields.need("topics")));
        } else if (fields.has("pattern")) {
            builder.topicsPattern(Pattern.compile(fields.needText("pattern")));
        } else {
            builder.topic(fields.needText("topic"));
        }
        int queue = fields.integer("queue", 1000);
        held.queue = queue > 0;
        int discovery = (int) Math.max(1, fields.number("discovery_ms", 60_000) / 1000);
        builder.subscriptionName(fields.needText("subscription"))
                .subscriptionType(switch (fields.text("type", "exclusive")) {
                    case "shared" -> SubscriptionType.Shared;
                    case "failover" -> SubscriptionType.Failover;
                    case "key_shared" -> SubscriptionType.Key_Shared;
                    default -> SubscriptionType.Exclusive;
                })
                .subscriptionInitialPosition(fields.text("initial", "latest").equals("earliest")
                        ? SubscriptionInitialPosition.Earliest
                        : SubscriptionInitialPosition.Latest)
                .subscriptionMode(fields.flag("durable", true) ? SubscriptionMode.Durable : SubscriptionMode.NonDurable)
                .receiverQueueSize(queue)
                .priorityLevel(fields.integer("priority", 0))
                .enableRetry(fields.flag("retry", false))
                .negativeAckRedeliveryDelay(fields.number("nack_delay_ms", 200), TimeUnit.MILLISECONDS)
                .isAckReceiptEnabled(fields.flag("ack_receipt", false))
                .acknowledgmentGroupTime(fields.number("ack_group_ms", 0), TimeUnit.MILLISECONDS)
                .enableBatchIndexAcknowledgment(fields.flag("batch_index_ack", false))
                .readCompacted(fields.flag("read_compacted", false))
                .replicateSubscriptionState(fields.flag("replicated", false))
                .maxPendingChunkedMessage(fields.integer("max_pending_chunked", 10))
                .patternAutoDiscoveryPeriod(discovery, TimeUnit.SECONDS)
                .autoUpdatePartitionsInterval(discovery, TimeUnit.SECONDS);
        if (fields.has("name")) {
            builder.consumerName(fields.needText("name"));
        }
        long ackTimeout = fields.number("ack_timeout_ms", 0);
        if (ackTimeout > 0) {
            builder.ackTimeout(ackTimeout, TimeUnit.MILLISECONDS);
        }
        if (fields.flag("start_inclusive", false)) {
            builder.startMessageIdInclusive();
        }
        if (fields.has("properties")) {
            builder.properties(fields.texts("properties"));
        }
        if (fields.has("subscription_properties")) {
            builder.subscriptionProperties(fields.texts("subscription_properties"));
        }
        if (fields.has("pattern_domain")) {
            builder.subscriptionTopicsMode(switch (fields.needText("pattern_domain")) {
                case "non_persistent" -> RegexSubscriptionMode.NonPersistentOnly;
                case "all" -> RegexSubscriptionMode.AllTopics;
                default -> RegexSubscriptionMode.PersistentOnly;
            });
        }
        policies(builder, fields);
        Fields decrypt = fields.object("decrypt");
        if (decrypt != null) {
            builder.cryptoFailureAction(failure(decrypt));
            if (decrypt.has("private")) {
                builder.defaultCryptoKeyReader("file://" + decrypt.needText("private")); // of keys of every name
            }
        }
        if (held.heard != null) {
            builder.messageListener((consumer, message) -> held.heard.add(message));
        }
        if (fields.flag("events", false)) {
            builder.consumerEventListener(held);
        }
        fields.end();
        return builder;
    }

    private static void policies(ConsumerBuilder<Object> builder, Fields fields) {
        Fields keys = fields.object("key_shared");
        if (keys != null) {
            KeySharedPolicy policy = keys.needText("mode").equals("sticky")
                    ? KeySharedPolicy.stickyHashRange().ranges(ranges(keys.need("ranges")))
                    : KeySharedPolicy.autoSplitHashRange();
            builder.keySharedPolicy(policy.setAllowOutOfOrderDelivery(keys.flag("allow_out_of_order", false)));
        }
        Fields dead = fields.object("dead_letter");
        if (dead != null) {
            builder.deadLetterPolicy(DeadLetterPolicy.builder()
                    .maxRedeliverCount(dead.integer("max_redeliver", 0))
                    .deadLetterTopic(dead.text("topic", null))
                    .retryLetterTopic(dead.text("retry_topic", null))
                    .initialSubscriptionName(dead.text("initial_subscription", null))
                    .build());
        }
        Fields batch = fields.object("batch_receive");
        if (batch != null) {
            builder.batchReceivePolicy(BatchReceivePolicy.builder()
                    .maxNumMessages(batch.integer("max_messages", 10))
                    .maxNumBytes(batch.integer("max_bytes", -1))
                    .timeout(batch.integer("timeout_ms", 500), TimeUnit.MILLISECONDS)
                    .build());
        }
    }

    static ReaderBuilder<Object> reader(ReaderBuilder<Object> builder, Fields fields, Held held, Ids ids) {
        if (fields.has("topics")) {
            builder.topics(Fields.list(fields.need("topics")));
        } else {
            builder.topic(fields.needText("topic"));
        }
        JsonElement start = fields.need("start");
        if (start.isJsonObject()) {
            // The API accepts only an age, in seconds.
            long ago = System.currentTimeMillis() - start.getAsJsonObject().get("time").getAsLong();
            builder.startMessageFromRollbackDuration(Math.round(ago / 1000.0), TimeUnit.SECONDS);
        } else {
            builder.startMessageId(ids.of(start.getAsString()));
        }
        builder.receiverQueueSize(fields.integer("queue", 1000)).readCompacted(fields.flag("read_compacted", false));
        if (fields.flag("inclusive", false)) {
            builder.startMessageIdInclusive();
        }
        if (fields.has("name")) {
            builder.readerName(fields.needText("name"));
        }
        if (fields.has("subscription")) {
            builder.subscriptionName(fields.needText("subscription"));
        }
        if (fields.has("key_hash_ranges")) {
            builder.keyHashRange(ranges(fields.need("key_hash_ranges")).toArray(new Range[0]));
        }
        Fields decrypt = fields.object("decrypt");
        if (decrypt != null) {
            builder.cryptoFailureAction(failure(decrypt));
            if (decrypt.has("private")) {
                builder.defaultCryptoKeyReader("file://" + decrypt.needText("private")); // of keys of every name
            }
        }
        if (held.heard != null) {
            builder.readerListener((reader, message) -> held.heard.add(message));
        }
        fields.end();
        return builder;
    }

    private static ConsumerCryptoFailureAction failure(Fields decrypt) {
        return ConsumerCryptoFailureAction.valueOf(decrypt.text("failure", "fail").toUpperCase());
    }

    private static List<Range> ranges(JsonElement pairs) {
        List<Range> ranges = new ArrayList<>();
        pairs.getAsJsonArray().forEach(pair -> ranges.add(Range.of(
                pair.getAsJsonArray().get(0).getAsInt(), pair.getAsJsonArray().get(1).getAsInt())));
        return ranges;
    }
}
