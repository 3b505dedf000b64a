package main

import (
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	pingEvery      = 30 * time.Second
	ackEvery       = 100 * time.Millisecond // default of stock clients (acknowledgmentGroupTime)
	ackMost        = 1000
	opening        = 100 // connections that are opened concurrently
	latest         = int64(^uint64(0) >> 1)
	metaBatch      = 11 // num_messages_in_batch
	stampBytes     = 8
	singleMetadata = 4 // bytes of the length before the metadata of a single message of a batch
	plainVersion   = "load"
	movedVersion   = "Pulsar-Java-v4.0.8" // of a client that follows CLOSE_CONSUMER to the broker that it names (PIP-307)
	retryAfter     = 200 * time.Millisecond
	settled        = 500 * time.Millisecond // all have subscribed, and no broker has sent one on for so long
)

// kinds maps subscription types to their numbers in CommandSubscribe.
var kinds = map[string]uint64{"Exclusive": 0, "Shared": 1, "Failover": 2, "Key_Shared": 3}

type consumeOptions struct {
	broker       string
	topic        string
	subscription string
	kind         string
	source       string
	consumers    int
	connections  int
	permits      int
	durable      bool
	earliest     bool
	ack          bool
	redirects    bool
}

func (o *consumeOptions) version() string {
	if o.redirects {
		return movedVersion
	}
	return plainVersion
}

// totals counts for all consumers since the start.
type totals struct {
	messages atomic.Uint64
	bytes    atomic.Uint64
	entries  atomic.Uint64
	last     atomic.Int64
	ended    atomic.Uint64
	joined   atomic.Int64 // consumers that have subscribed, and were not sent on
	joinedAt atomic.Int64
	latency  histogram
}

func (t *totals) told() map[string]any {
	return map[string]any{
		"messages": t.messages.Load(), "bytes": t.bytes.Load(), "entries": t.entries.Load(),
		"last_ns": t.last.Load(), "ended": t.ended.Load(), "latency_ms": t.latency.take(),
	}
}

// consumer is the state of one consumer.
type consumer struct {
	at   *reader // its connection now
	used uint64  // permits since the last FLOW
	acks message
	held int
}

// reader is one connection with its consumers. Brokers may send some of them on to others: then one more connection to each of
// these brokers shares the consumers.
type reader struct {
	*connection
	options   *consumeOptions
	totals    *totals
	number    int
	consumers []consumer
	shared    *shared
}

// shared is what the connections of one group of consumers share.
type shared struct {
	lock  sync.Mutex
	other map[string]*reader // by address
}

func consume(arguments []string) error {
	options := &consumeOptions{}
	set := flag.NewFlagSet("consume", flag.ExitOnError)
	set.StringVar(&options.broker, "broker", "", "HOST:PORT of the broker for lookups")
	set.StringVar(&options.topic, "topic", "", "topic; # is the number of the consumer")
	set.StringVar(&options.subscription, "subscription", "load-#", "name of the subscription; # is the number of the consumer")
	set.StringVar(&options.kind, "type", "Exclusive", "Exclusive, Shared, Failover or Key_Shared")
	set.StringVar(&options.source, "source", "", "local address of the connections; # is 2 plus 1 for every 20,000 connections")
	set.IntVar(&options.consumers, "consumers", 1, "total number of consumers")
	set.IntVar(&options.connections, "connections", 0, "number of connections for all consumers; one for each by default")
	set.IntVar(&options.permits, "permits", 1000, "receiver queue size")
	set.BoolVar(&options.durable, "durable", false, "durable subscriptions instead of readers")
	set.BoolVar(&options.earliest, "earliest", false, "start at the first message")
	set.BoolVar(&options.redirects, "redirects", false, "follow brokers that send consumers on to others (PIP-307)")
	set.BoolVar(&options.ack, "ack", false, "ack each message, grouped for 100 ms as by stock clients")
	set.Parse(arguments)
	if options.connections == 0 {
		options.connections = options.consumers
	}
	sums := &totals{}
	begin := time.Now()
	readers, err := openAll(options, sums)
	if err != nil {
		return err
	}
	for sums.joined.Load() < int64(options.consumers) || time.Now().UnixNano()-sums.joinedAt.Load() < int64(settled) {
		if sums.ended.Load() > 0 {
			return fmt.Errorf("%d connections have ended", sums.ended.Load())
		}
		if !options.redirects {
			break
		}
		time.Sleep(settled / 10)
	}
	ready := time.Unix(0, sums.joinedAt.Load()).Sub(begin)
	tell(map[string]any{"ready": options.consumers, "seconds": ready.Seconds()})
	go keepAlive(readers)
	return obey(sums.told)
}

func openAll(options *consumeOptions, sums *totals) ([]*reader, error) {
	readers := make([]*reader, options.connections)
	failures := make(chan error, options.connections)
	turn := make(chan struct{}, opening)
	for number := range readers {
		go func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			r, err := newReader(options, sums, number)
			readers[number] = r
			failures <- err
		}()
	}
	for range readers {
		if err := <-failures; err != nil {
			return nil, err
		}
	}
	return readers, nil
}

func newReader(options *consumeOptions, sums *totals, number int) (*reader, error) {
	topic := strings.ReplaceAll(options.topic, "#", fmt.Sprint(number))
	source := strings.ReplaceAll(options.source, "#", fmt.Sprint(2+number/20000))
	c, err := openTopic(options.broker, topic, source, options.version())
	if err != nil {
		return nil, err
	}
	count := (options.consumers - number + options.connections - 1) / options.connections
	r := &reader{connection: c, options: options, totals: sums, number: number, consumers: make([]consumer, count)}
	r.shared = &shared{other: map[string]*reader{}}
	// All consumers of one connection subscribe at once.
	ready := make(chan error, 1)
	go func() { ready <- r.run() }()
	var asked []byte
	for id := range r.consumers {
		r.consumers[id].at = r
		asked = appendCommand(asked, cmdSubscribe, r.subscribe(id))
	}
	if err := c.write(asked); err != nil {
		return nil, err
	}
	return r, <-ready
}

// subscribe returns the body of a consumer's SUBSCRIBE.
func (r *reader) subscribe(id int) message {
	options := r.options
	index := id*options.connections + r.number
	name := strings.ReplaceAll(options.subscription, "#", fmt.Sprint(index))
	mine := strings.ReplaceAll(options.topic, "#", fmt.Sprint(index))
	body := message(nil).text(1, mine).text(2, name).number(3, kinds[options.kind])
	body = body.number(4, uint64(id)).number(5, uint64(id)+10).text(6, fmt.Sprintf("c%d", index))
	if !options.durable {
		body = body.number(8, 0)
		if options.earliest {
			body = body.bytes(9, message(nil).number(1, ^uint64(0)).number(2, ^uint64(0)))
		} else {
			body = body.bytes(9, message(nil).number(1, uint64(latest)).number(2, uint64(latest)))
		}
	}
	if options.earliest {
		body = body.number(13, 1)
	}
	return body
}

// joined handles the answer to a SUBSCRIBE.
func (r *reader) joined(body []byte) error {
	found, err := parse(body)
	if err != nil {
		return err
	}
	r.totals.joinedAt.Store(time.Now().UnixNano())
	r.totals.joined.Add(1)
	flow := message(nil).number(1, found.number[1]-10).number(2, uint64(r.options.permits))
	return r.write(appendCommand(nil, cmdFlow, flow))
}

// refused handles an ERROR: a broker that cannot serve a consumer now is asked again.
func (r *reader) refused(body []byte) error {
	found, err := parse(body)
	if err != nil {
		return err
	}
	id := int(found.number[1]) - 10
	if !r.options.redirects || found.number[2] != notReady || id < 0 || id >= len(r.consumers) {
		return fmt.Errorf("subscribe: error %d: %s", found.number[2], found.data[3])
	}
	time.AfterFunc(retryAfter, func() { r.write(appendCommand(nil, cmdSubscribe, r.subscribe(id))) })
	return nil
}

// closed handles CLOSE_CONSUMER: the consumer subscribes at the broker that it names.
func (r *reader) closed(body []byte) error {
	found, err := parse(body)
	if err != nil {
		return err
	}
	address := strings.TrimPrefix(string(found.data[3]), "pulsar://")
	id := int(found.number[1])
	if !r.options.redirects || address == "" || id >= len(r.consumers) {
		return fmt.Errorf("the broker closed a consumer")
	}
	r.totals.joined.Add(-1)
	next, err := r.to(address)
	if err != nil {
		return err
	}
	r.shared.lock.Lock()
	r.consumers[id].at, r.consumers[id].used = next, 0
	r.shared.lock.Unlock()
	return next.write(appendCommand(nil, cmdSubscribe, next.subscribe(id)))
}

// to returns the group's connection to a broker.
func (r *reader) to(address string) (*reader, error) {
	r.shared.lock.Lock()
	defer r.shared.lock.Unlock()
	if found := r.shared.other[address]; found != nil {
		return found, nil
	}
	c, err := open(address, "", r.options.version())
	if err != nil {
		return nil, err
	}
	made := &reader{
		connection: c, options: r.options, totals: r.totals, number: r.number, consumers: r.consumers, shared: r.shared,
	}
	r.shared.other[address] = made
	made.start()
	return made, nil
}

// run reads until all consumers have subscribed, and returns. Another goroutine then reads until the connection ends.
func (r *reader) run() error {
	for waiting := len(r.consumers); waiting > 0; {
		frame, _, err := r.next()
		if err != nil {
			return err
		}
		kind, body, rest, err := split(frame)
		if err != nil {
			return err
		}
		switch kind {
		case cmdSuccess:
			if err := r.joined(body); err != nil {
				return err
			}
			waiting--
		default:
			if err := r.take(kind, body, rest, time.Now().UnixNano()); err != nil {
				return err
			}
		}
	}
	r.start()
	return nil
}

// start reads until the connection ends, and acks.
func (r *reader) start() {
	go func() {
		if err := r.follow(); err != nil {
			r.totals.ended.Add(1)
			fmt.Fprintln(os.Stderr, "load: consumer:", err)
		}
	}()
	if r.options.ack {
		go r.ackOften()
	}
}

func (r *reader) follow() error {
	now := time.Now().UnixNano()
	for {
		frame, fresh, err := r.next()
		if err != nil {
			return err
		}
		if fresh {
			now = time.Now().UnixNano()
		}
		kind, body, rest, err := split(frame)
		if err != nil {
			return err
		}
		if err := r.take(kind, body, rest, now); err != nil {
			return err
		}
	}
}

func (r *reader) take(kind int, body []byte, rest []byte, now int64) error {
	switch kind {
	case cmdMessage:
		return r.count(body, rest, now)
	case cmdPing:
		return r.pong()
	case cmdSuccess:
		return r.joined(body)
	case cmdError:
		return r.refused(body)
	case cmdCloseConsumer:
		return r.closed(body)
	}
	return nil
}

// count counts one entry, a message or a batch, acks it, and renews permits.
func (r *reader) count(body []byte, rest []byte, now int64) error {
	metadata, payload, err := stored(rest)
	if err != nil {
		return err
	}
	// Every server writes consumer_id as the first field of MESSAGE, and message_id as the second.
	id, n := binary.Uvarint(body[1:])
	if n <= 0 || body[0] != 0x08 || id >= uint64(len(r.consumers)) {
		return errShort
	}
	batched, messages := false, uint64(1)
	err = each(metadata, func(field int, value uint64, _ []byte) {
		if field == metaBatch {
			batched, messages = true, value
		}
	})
	if err != nil {
		return err
	}
	at := payload
	if batched && len(payload) > singleMetadata {
		at = payload[singleMetadata+int(binary.BigEndian.Uint32(payload)):]
	}
	if len(at) >= stampBytes {
		r.totals.latency.add(now-int64(binary.BigEndian.Uint64(at)), messages)
	}
	r.totals.messages.Add(messages)
	r.totals.bytes.Add(uint64(len(payload)))
	r.totals.entries.Add(1)
	r.totals.last.Store(now)
	c := &r.consumers[id]
	if r.options.ack {
		messageID, err := parse(body[1+n:])
		if err != nil {
			return err
		}
		r.shared.lock.Lock()
		c.acks = c.acks.bytes(3, withoutPartition(messageID.data[2]))
		c.held++
		full := c.held >= ackMost
		r.shared.lock.Unlock()
		if full {
			if err := r.sendAcks(); err != nil {
				return err
			}
		}
	}
	c.used += messages
	if c.used >= uint64(r.options.permits)/2 {
		flow := message(nil).number(1, id).number(2, c.used)
		c.used = 0
		return r.write(appendCommand(nil, cmdFlow, flow))
	}
	return nil
}

// withoutPartition reduces a message id to ledger and entry.
func withoutPartition(id []byte) []byte {
	found, err := parse(id)
	if err != nil {
		return id
	}
	return message(nil).number(1, found.number[1]).number(2, found.number[2])
}

func (r *reader) ackOften() {
	for range time.Tick(ackEvery) {
		if r.sendAcks() != nil {
			return
		}
	}
}

func (r *reader) sendAcks() error {
	var out []byte
	r.shared.lock.Lock()
	for id := range r.consumers {
		c := &r.consumers[id]
		if c.held > 0 && c.at == r {
			out = appendCommand(out, cmdAck, append(message(nil).number(1, uint64(id)).number(2, 0), c.acks...))
			c.acks, c.held = c.acks[:0], 0
		}
	}
	r.shared.lock.Unlock()
	if len(out) == 0 {
		return nil
	}
	return r.write(out)
}

// keepAlive sends a PING on each connection every 30 s, evenly spread.
func keepAlive(readers []*reader) {
	for {
		for _, r := range readers {
			r.ping()
			time.Sleep(pingEvery / time.Duration(len(readers)))
		}
	}
}
