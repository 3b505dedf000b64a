package main

import (
	"context"
	"fmt"
	"runtime/debug"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

const module = "github.com/apache/pulsar-client-go"

// longestSend is more than any send timeout. The older release forgets it when a topic was terminated.
const longestSend = 45 * time.Second

type object = map[string]any

// operations are the operations of requests; see PROTOCOL.md.
type operations struct {
	ids     ids
	lock    sync.Mutex
	handles map[string]*held
}

func newOperations() *operations {
	return &operations{ids: ids{told: map[string]pulsar.MessageID{}}, handles: map[string]*held{}}
}

// must ends a request with an error.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// run executes one request; it returns the `ok` of its answer.
func (o *operations) run(op string, f fields) (ok object, err error) {
	defer func() {
		if thrown := recover(); thrown != nil {
			if known, is := thrown.(error); is {
				err = known
			} else {
				err = fmt.Errorf("%v", thrown)
			}
		}
	}()
	switch op {
	case "hello":
		return object{"client": "go", "version": version()}, nil
	case "client":
		return o.client(f), nil
	case "producer":
		return o.producer(f), nil
	case "consumer":
		return o.consumer(f), nil
	case "reader":
		return o.reader(f), nil
	case "table_view":
		return o.tableView(f), nil
	case "txn":
		return o.txn(f), nil
	}
	on, there := onHandles[op]
	if !there {
		return nil, unsupported("no " + op)
	}
	return on(o, o.held(f, "on"), f), nil
}

var onHandles = map[string]func(*operations, *held, fields) object{
	"partitions":       partitions,
	"close":            closeIt,
	"send":             send,
	"send_many":        sendMany,
	"last_sequence_id": lastSequenceID,
	"receive":          receive,
	"receive_many":     receiveMany,
	"ack":              ack,
	"ack_list":         ackList,
	"ack_cumulative":   ackCumulative,
	"nack":             nack,
	"reconsume_later":  reconsumeLater,
	"seek":             seek,
	"unsubscribe":      unsubscribe,
	"last_message_id":  lastMessageID,
	"events":           events,
	"has_next":         hasNext,
	"table":            table,
	"table_get":        tableGet,
	"commit":           commit,
	"abort":            abort,
}

func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, dependency := range info.Deps {
		if dependency.Path == module {
			return strings.TrimPrefix(dependency.Version, "v")
		}
	}
	return "unknown"
}

// Clients and handles

func (o *operations) client(f fields) object {
	name := f.needText("as")
	client, err := pulsar.NewClient(clientOptions(f))
	must(err)
	return o.keep(name, newHeld(client, values{}))
}

func (o *operations) producer(f fields) object {
	name, client := f.needText("as"), thing[pulsar.Client](o.held(f, "client"))
	h := newHeld(nil, valuesOf(f.take("schema"), "bytes"))
	producer, err := client.CreateProducer(producerOptions(f, h.values))
	must(err)
	h.thing = producer
	o.keep(name, h)
	return object{"name": producer.Name(), "last_sequence_id": producer.LastSequenceID()}
}

func (o *operations) consumer(f fields) object {
	name, client := f.needText("as"), thing[pulsar.Client](o.held(f, "client"))
	h := newHeld(nil, valuesOf(f.take("schema"), "bytes"))
	consumer, err := client.Subscribe(consumerOptions(f, h))
	must(err)
	h.thing = consumer
	return o.keep(name, h)
}

func (o *operations) reader(f fields) object {
	name, client := f.needText("as"), thing[pulsar.Client](o.held(f, "client"))
	h := newHeld(nil, valuesOf(f.take("schema"), "bytes"))
	reader, err := client.CreateReader(o.readerOptions(f, h))
	must(err)
	h.thing = reader
	return o.keep(name, h)
}

func (o *operations) tableView(f fields) object {
	name, client := f.needText("as"), thing[pulsar.Client](o.held(f, "client"))
	h := newHeld(nil, valuesOf(f.take("schema"), "string"))
	schema := h.values.schema
	if schema == nil {
		schema = pulsar.NewBytesSchema(nil)
	}
	options := pulsar.TableViewOptions{Topic: f.needText("topic"), Schema: schema, SchemaValueType: h.values.tableType()}
	f.end()
	view, err := client.CreateTableView(options)
	must(err)
	h.thing = view
	return o.keep(name, h)
}

func (o *operations) txn(f fields) object {
	name, client := f.needText("as"), thing[pulsar.Client](o.held(f, "client"))
	timeout := f.duration("timeout_ms", 60_000)
	f.end()
	txn, err := client.NewTransaction(timeout)
	must(err)
	return o.keep(name, newHeld(txn, values{}))
}

func partitions(_ *operations, h *held, f fields) object {
	client, topic := thing[pulsar.Client](h), f.needText("topic")
	f.end()
	topics, err := client.TopicPartitions(topic)
	must(err)
	return object{"topics": topics}
}

func closeIt(_ *operations, h *held, f fields) object {
	f.end()
	closer, is := h.thing.(interface{ Close() })
	if !is {
		panic(unsupported("no close of a transaction"))
	}
	closer.Close()
	return object{}
}

// Producers

func send(o *operations, h *held, f fields) object {
	producer, message := thing[pulsar.Producer](h), o.message(f, h.values)
	ctx, cancel := context.WithTimeout(context.Background(), longestSend)
	defer cancel()
	id, err := producer.Send(ctx, message)
	must(err)
	return object{"id": o.ids.tell(id)}
}

func sendMany(o *operations, h *held, f fields) object {
	producer := thing[pulsar.Producer](h)
	type result struct {
		id  pulsar.MessageID
		err error
	}
	var sends []chan result
	for _, message := range f.list("messages") {
		done := make(chan result, 1)
		sends = append(sends, done)
		sent := o.message(newFields(as[object]("messages", message)), h.values)
		producer.SendAsync(context.Background(), sent, func(id pulsar.MessageID, _ *pulsar.ProducerMessage, err error) {
			done <- result{id, err}
		})
	}
	f.end()
	ctx, cancel := context.WithTimeout(context.Background(), longestSend)
	defer cancel()
	must(producer.FlushWithCtx(ctx))
	texts := []string{}
	for _, done := range sends {
		select {
		case got := <-done:
			must(got.err)
			texts = append(texts, o.ids.tell(got.id))
		case <-ctx.Done():
			panic(ctx.Err())
		}
	}
	return object{"ids": texts}
}

func lastSequenceID(_ *operations, h *held, f fields) object {
	f.end()
	return object{"last_sequence_id": thing[pulsar.Producer](h).LastSequenceID()}
}

// Consumers and readers

func receive(_ *operations, h *held, f fields) object {
	timeout := f.duration("timeout_ms", 10_000)
	f.end()
	message, err := h.receive(timeout)
	must(err)
	return h.json(message)
}

func receiveMany(_ *operations, h *held, f fields) object {
	count, timeout, acked := int(f.needNumber("count")), f.duration("timeout_ms", 10_000), f.flag("ack", false)
	f.end()
	messages := []object{}
	for len(messages) < count {
		message, err := h.receive(timeout)
		if err != nil {
			if kind, _ := classify(err); kind == "Timeout" {
				break
			}
			panic(err)
		}
		messages = append(messages, h.json(message))
		if acked {
			must(thing[pulsar.Consumer](h).AckID(message.ID()))
		}
	}
	return object{"messages": messages}
}

func ack(o *operations, h *held, f fields) object {
	consumer, id := thing[pulsar.Consumer](h), f.needText("id")
	if !f.has("txn") {
		f.end()
		must(consumer.AckID(o.id(h, id)))
		return object{}
	}
	txn := thing[pulsar.Transaction](o.held(f, "txn"))
	f.end()
	must(consumer.AckWithTxn(received(h, id), txn))
	return object{}
}

func ackList(o *operations, h *held, f fields) object {
	texts := f.listOfTexts("ids")
	f.end() // no transaction
	consumer, offers := thing[pulsar.Consumer](h).(interface {
		AckIDList(ids []pulsar.MessageID) error
	})
	if !offers {
		panic(unsupported("no acknowledgement of a list"))
	}
	var list []pulsar.MessageID
	for _, text := range texts {
		list = append(list, o.id(h, text))
	}
	must(consumer.AckIDList(list))
	return object{}
}

func ackCumulative(o *operations, h *held, f fields) object {
	consumer, id := thing[pulsar.Consumer](h), f.needText("id")
	f.end() // no transaction
	must(consumer.AckIDCumulative(o.id(h, id)))
	return object{}
}

func nack(o *operations, h *held, f fields) object {
	consumer, id := thing[pulsar.Consumer](h), f.needText("id")
	f.end()
	consumer.NackID(o.id(h, id))
	return object{}
}

func reconsumeLater(_ *operations, h *held, f fields) object {
	consumer, message := thing[pulsar.Consumer](h), received(h, f.needText("id"))
	if !f.has("delay_ms") {
		panic(badRequest("delay_ms is missing"))
	}
	delay, properties := f.duration("delay_ms", 0), f.texts("properties")
	f.end()
	if properties == nil {
		consumer.ReconsumeLater(message, delay)
	} else {
		consumer.ReconsumeLaterWithCustomProperties(message, properties, delay)
	}
	return object{}
}

func seek(o *operations, h *held, f fields) object {
	on := thing[interface {
		Seek(id pulsar.MessageID) error
		SeekByTime(at time.Time) error
	}](h)
	switch to := f.need("to").(type) {
	case map[string]any:
		at := newFields(to).timestamp("time")
		f.end()
		must(on.SeekByTime(at))
	default:
		id := o.id(h, as[string]("to", to))
		f.end()
		must(on.Seek(id))
	}
	return object{}
}

func unsubscribe(_ *operations, h *held, f fields) object {
	consumer, force := thing[pulsar.Consumer](h), f.flag("force", false)
	f.end()
	if force {
		must(consumer.UnsubscribeForce())
	} else {
		must(consumer.Unsubscribe())
	}
	return object{}
}

func lastMessageID(o *operations, h *held, f fields) object {
	f.end()
	if reader, is := h.thing.(pulsar.Reader); is {
		id, err := reader.GetLastMessageID()
		must(err)
		return object{"ids": []object{{"topic": reader.Topic(), "id": o.ids.tell(id)}}}
	}
	last, err := thing[pulsar.Consumer](h).GetLastMessageIDs()
	must(err)
	sort.Slice(last, func(a, b int) bool { return last[a].Topic() < last[b].Topic() })
	entries := []object{}
	for _, id := range last {
		entries = append(entries, object{"topic": id.Topic(), "id": o.ids.tell(id)})
	}
	return object{"ids": entries}
}

func events(_ *operations, h *held, f fields) object {
	f.end()
	return object{"events": h.allEvents()}
}

func hasNext(_ *operations, h *held, f fields) object {
	f.end()
	return object{"has": thing[pulsar.Reader](h).HasNext()}
}

// Table views and transactions

func table(_ *operations, h *held, f fields) object {
	f.end()
	entries := object{}
	for key, value := range thing[pulsar.TableView](h).Entries() {
		entries[key] = tableValue(value)
	}
	return object{"entries": entries}
}

func tableGet(_ *operations, h *held, f fields) object {
	key := f.needText("key")
	f.end()
	return object{"value": tableValue(thing[pulsar.TableView](h).Get(key))}
}

func commit(_ *operations, h *held, f fields) object {
	f.end()
	must(thing[pulsar.Transaction](h).Commit(context.Background()))
	return object{}
}

func abort(_ *operations, h *held, f fields) object {
	f.end()
	must(thing[pulsar.Transaction](h).Abort(context.Background()))
	return object{}
}

// Handles and ids

func (o *operations) keep(name string, h *held) object {
	o.lock.Lock()
	defer o.lock.Unlock()
	o.handles[name] = h
	return object{}
}

func (o *operations) held(f fields, field string) *held {
	name := f.needText(field)
	o.lock.Lock()
	defer o.lock.Unlock()
	h, there := o.handles[name]
	if !there {
		panic(badRequest(name + ": no such handle"))
	}
	return h
}

func thing[T any](h *held) T {
	typed, right := h.thing.(T)
	if !right {
		panic(badRequest(fmt.Sprintf("a handle of another kind: %T", h.thing)))
	}
	return typed
}

// received returns a message that this consumer received.
func received(h *held, id string) pulsar.Message {
	message := h.message(id)
	if message == nil {
		panic(badRequest(id + ": this consumer has not received it"))
	}
	return message
}

func (o *operations) id(h *held, text string) pulsar.MessageID {
	if rest, isStored := strings.CutPrefix(text, stored); isStored {
		return readBack(o.id(h, rest))
	}
	if message := h.message(text); message != nil {
		return message.ID()
	}
	return o.ids.of(text)
}
