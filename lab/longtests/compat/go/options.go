package main

import (
	"log/slog"
	"os"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/crypto"
	"github.com/apache/pulsar-client-go/pulsar/log"
)

const mostOfBatch = 1 << 20

func clientOptions(f fields) pulsar.ClientOptions {
	options := pulsar.ClientOptions{
		URL:                   f.needText("url"),
		OperationTimeout:      f.duration("operation_timeout_ms", 30_000),
		TLSTrustCertsFilePath: f.text("tls_ca", ""),
		EnableTransaction:     f.flag("transactions", false),
		ListenerName:          f.text("listener_name", ""),
		Logger: log.NewLoggerWithSlog(slog.New(
			slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))),
	}
	if auth := f.object("auth"); auth != nil {
		switch auth.needText("type") {
		case "token":
			options.Authentication = pulsar.NewAuthenticationToken(auth.needText("token"))
		case "basic":
			basic, err := pulsar.NewAuthenticationBasic(auth.needText("user"), auth.needText("password"))
			must(err)
			options.Authentication = basic
		default:
			panic(unsupported("no such authentication"))
		}
	}
	f.end()
	return options
}

func producerOptions(f fields, v values) pulsar.ProducerOptions {
	options := pulsar.ProducerOptions{
		Topic:               f.needText("topic"),
		Name:                f.text("name", ""),
		Schema:              v.schema,
		Properties:          f.texts("properties"),
		SendTimeout:         orOff(f.duration("send_timeout_ms", 30_000)),
		MaxPendingMessages:  int(f.number("queue", 1000)),
		CompressionType:     compression(f.text("compression", "none")),
		EnableChunking:      f.flag("chunking", false),
		ChunkMaxMessageSize: uint(f.number("chunk_max_size", 0)),
		DisableBatching:     true,
	}
	if f.text("routing", "round_robin") == "single" {
		options.MessageRouter = pulsar.NewSinglePartitionRouter()
	}
	switch f.text("access", "shared") {
	case "exclusive":
		options.ProducerAccessMode = pulsar.ProducerAccessModeExclusive
	case "wait":
		options.ProducerAccessMode = pulsar.ProducerAccessModeWaitForExclusive
	case "fencing":
		panic(unsupported("no exclusive access with fencing"))
	}
	if batching := f.object("batching"); batching != nil {
		options.DisableBatching = false
		options.BatchingMaxMessages = uint(batching.number("max_messages", 10))
		options.BatchingMaxPublishDelay = batching.duration("max_delay_ms", 60_000)
		options.BatchingMaxSize = mostOfBatch
		if batching.flag("key_based", false) {
			options.BatcherBuilderType = pulsar.KeyBasedBatchBuilder
		}
		batching.end()
	}
	if encrypt := f.object("encrypt"); encrypt != nil {
		options.Encryption = &pulsar.ProducerEncryptionInfo{
			KeyReader: crypto.NewFileKeyReader(encrypt.needText("public"), encrypt.text("private", "")),
			Keys:      []string{encrypt.needText("key")},
		}
	}
	f.end()
	return options
}

func compression(name string) pulsar.CompressionType {
	switch name {
	case "lz4":
		return pulsar.LZ4
	case "zlib":
		return pulsar.ZLib
	case "zstd":
		return pulsar.ZSTD
	case "snappy":
		return snappy()
	}
	return pulsar.NoCompression
}

// orOff returns the client's value for no timeout.
func orOff(timeout time.Duration) time.Duration {
	if timeout == 0 {
		return -1
	}
	return timeout
}

func (o *operations) message(f fields, v values) *pulsar.ProducerMessage {
	message := &pulsar.ProducerMessage{
		Key:          f.text("key", ""),
		Properties:   f.texts("properties"),
		DeliverAfter: f.duration("deliver_after_ms", 0),
	}
	f.onlyDefault("null", false)
	if f.has("value") {
		v.content(message, f.take("value"))
	}
	if f.has("ordering_key") {
		message.OrderingKey = string(f.bytes("ordering_key"))
	}
	if f.has("event_time") {
		message.EventTime = f.timestamp("event_time")
	}
	if f.has("sequence_id") {
		sequence := f.needNumber("sequence_id")
		message.SequenceID = &sequence
	}
	if f.has("deliver_at") {
		message.DeliverAt = f.timestamp("deliver_at")
	}
	if f.has("txn") {
		message.Transaction = thing[pulsar.Transaction](o.held(f, "txn"))
	}
	f.end()
	return message
}

func consumerOptions(f fields, h *held) pulsar.ConsumerOptions {
	options := pulsar.ConsumerOptions{
		SubscriptionName:               f.needText("subscription"),
		Type:                           subscriptionType(f.text("type", "exclusive")),
		Name:                           f.text("name", ""),
		Schema:                         h.values.schema,
		NackRedeliveryDelay:            f.duration("nack_delay_ms", 200),
		AckWithResponse:                f.flag("ack_receipt", false),
		EnableBatchIndexAcknowledgment: f.flag("batch_index_ack", false),
		ReadCompacted:                  f.flag("read_compacted", false),
		ReplicateSubscriptionState:     f.flag("replicated", false),
		RetryEnable:                    f.flag("retry", false),
		StartMessageIDInclusive:        f.flag("start_inclusive", false),
		Properties:                     f.texts("properties"),
		SubscriptionProperties:         f.texts("subscription_properties"),
		AutoDiscoveryPeriod:            f.duration("discovery_ms", 60_000),
		MaxPendingChunkedMessage:       int(f.number("max_pending_chunked", 10)),
		Decryption:                     decryption(f),
		AckGroupingOptions:             &pulsar.AckGroupingOptions{MaxSize: 1},
	}
	switch {
	case f.has("topics"):
		options.Topics = f.listOfTexts("topics")
	case f.has("pattern"):
		options.TopicsPattern = f.needText("pattern")
	default:
		options.Topic = f.needText("topic")
	}
	if f.text("initial", "latest") == "earliest" {
		options.SubscriptionInitialPosition = pulsar.SubscriptionPositionEarliest
	}
	if !f.flag("durable", true) {
		options.SubscriptionMode = pulsar.NonDurable
	}
	options.ReceiverQueueSize = int(f.number("queue", 1000))
	options.EnableZeroQueueConsumer = options.ReceiverQueueSize == 0
	if grouped := f.duration("ack_group_ms", 0); grouped > 0 {
		options.AckGroupingOptions = &pulsar.AckGroupingOptions{MaxSize: 1000, MaxTime: grouped}
	}
	if policy := f.object("key_shared"); policy != nil {
		options.KeySharedPolicy = keySharedPolicy(policy)
	}
	if dead := f.object("dead_letter"); dead != nil {
		deliveries := dead.needNumber("max_redeliver")
		if !options.RetryEnable {
			deliveries++ // negative acknowledgements count the first delivery too, retry letters do not
		}
		options.DLQ = &pulsar.DLQPolicy{
			MaxDeliveries:           uint32(deliveries),
			DeadLetterTopic:         dead.text("topic", ""),
			RetryLetterTopic:        dead.text("retry_topic", ""),
			InitialSubscriptionName: dead.text("initial_subscription", ""),
		}
	}
	if f.flag("listener", false) {
		h.consumed = make(chan pulsar.ConsumerMessage, 1000)
		options.MessageChannel = h.consumed
	}
	if f.flag("events", false) {
		options.EventListener = h
	}
	f.onlyDefault("pattern_domain", "persistent")
	for _, name := range []string{"priority", "ack_timeout_ms"} {
		if f.number(name, 0) != 0 {
			panic(unsupported("no option for " + name))
		}
	}
	f.end()
	return options
}

func subscriptionType(name string) pulsar.SubscriptionType {
	switch name {
	case "shared":
		return pulsar.Shared
	case "failover":
		return pulsar.Failover
	case "key_shared":
		return pulsar.KeyShared
	}
	return pulsar.Exclusive
}

func keySharedPolicy(policy fields) *pulsar.KeySharedPolicy {
	outOfOrder := policy.flag("allow_out_of_order", false)
	if policy.needText("mode") != "sticky" {
		return &pulsar.KeySharedPolicy{Mode: pulsar.KeySharedPolicyModeAutoSplit, AllowOutOfOrderDelivery: outOfOrder}
	}
	var ranges []int
	for _, pair := range policy.list("ranges") {
		for _, edge := range as[[]any]("ranges", pair) {
			ranges = append(ranges, int(number("ranges", edge)))
		}
	}
	sticky, err := pulsar.NewKeySharedPolicySticky(ranges)
	must(err)
	sticky.AllowOutOfOrderDelivery = outOfOrder
	return sticky
}

func (o *operations) readerOptions(f fields, h *held) pulsar.ReaderOptions {
	start := o.start(f)
	options := pulsar.ReaderOptions{
		Topic:                   f.needText("topic"),
		Name:                    f.text("name", ""),
		Schema:                  h.values.schema,
		StartMessageID:          start,
		StartMessageIDInclusive: f.flag("inclusive", false),
		ReceiverQueueSize:       int(f.number("queue", 1000)),
		SubscriptionName:        f.text("subscription", ""),
		ReadCompacted:           f.flag("read_compacted", false),
		Decryption:              decryption(f),
	}
	if f.flag("listener", false) {
		h.read = make(chan pulsar.ReaderMessage, 1000)
		options.MessageChannel = h.read
	}
	f.end()
	return options
}

func (o *operations) start(f fields) pulsar.MessageID {
	start, is := f.need("start").(string)
	switch {
	case !is:
		panic(unsupported("a reader cannot start at a time"))
	case start == "earliest":
		return pulsar.EarliestMessageID()
	case start == "latest":
		return pulsar.LatestMessageID()
	}
	return o.ids.of(start)
}

func decryption(f fields) *pulsar.MessageDecryptionInfo {
	decrypt := f.object("decrypt")
	if decrypt == nil {
		return nil
	}
	actions := map[string]int{
		"fail":    crypto.ConsumerCryptoFailureActionFail,
		"discard": crypto.ConsumerCryptoFailureActionDiscard,
		"consume": crypto.ConsumerCryptoFailureActionConsume,
	}
	return &pulsar.MessageDecryptionInfo{
		KeyReader:                   crypto.NewFileKeyReader(decrypt.text("public", ""), decrypt.text("private", "")),
		ConsumerCryptoFailureAction: actions[decrypt.text("failure", "fail")],
	}
}
