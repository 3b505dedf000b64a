package main

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand"
	"sync/atomic"
	"time"
)

const (
	batchMostMessages = 1000      // batchingMaxMessages of a stock producer
	batchMostBytes    = 128 << 10 // batchingMaxBytes
	batchDelay        = time.Millisecond
	mostPending       = 1000 // entries without a receipt (maxPendingMessages of a stock producer)
)

type produceOptions struct {
	broker  string
	topic   string
	topics  int
	rate    float64
	count   uint64
	size    int
	batched bool
	pending int
}

// producer publishes to one topic.
type producer struct {
	*connection
	id       uint64
	sequence uint64
}

type produced struct {
	messages atomic.Uint64
	entries  atomic.Uint64
	receipts atomic.Uint64
	ended    atomic.Uint64
	done     atomic.Bool
	latency  histogram
}

func (p *produced) told() map[string]any {
	return map[string]any{
		"messages": p.messages.Load(), "entries": p.entries.Load(), "receipts": p.receipts.Load(),
		"ended": p.ended.Load(), "done": p.done.Load(), "latency_ms": p.latency.take(),
	}
}

func produce(arguments []string) error {
	options := &produceOptions{}
	set := flag.NewFlagSet("produce", flag.ExitOnError)
	set.StringVar(&options.broker, "broker", "", "HOST:PORT of the broker for lookups")
	set.StringVar(&options.topic, "topic", "", "topic; with several topics, # is the number of the topic")
	set.IntVar(&options.topics, "topics", 1, "number of topics, published to in turn")
	set.Float64Var(&options.rate, "rate", 0, "messages per second for all topics; limited by -pending only by default")
	set.Uint64Var(&options.count, "count", 0, "total number of messages; unlimited by default")
	set.IntVar(&options.size, "size", 1024, "bytes of a message's payload")
	set.BoolVar(&options.batched, "batched", false, "publish batches with a stock producer's limits: 1 ms, 1,000 messages, 128 KB")
	set.IntVar(&options.pending, "pending", mostPending, "number of entries without a receipt")
	set.Parse(arguments)
	if options.size < stampBytes {
		return fmt.Errorf("-size %d: must be at least %d, because a payload begins with its time", options.size, stampBytes)
	}
	sums := &produced{}
	room := make(chan struct{}, options.pending)
	producers := make([]*producer, options.topics)
	for number := range producers {
		name := options.topic
		if options.topics > 1 {
			name = numbered(options.topic, number)
		}
		p, err := newProducer(options.broker, name)
		if err != nil {
			return err
		}
		producers[number] = p
		go p.receive(sums, room)
	}
	tell(map[string]any{"ready": options.topics})
	go func() {
		if err := publish(options, producers, sums, room); err != nil {
			sums.ended.Add(1)
			fail("produce", err)
		}
		sums.done.Store(true)
	}()
	return obey(sums.told)
}

func newProducer(broker string, topic string) (*producer, error) {
	c, err := openTopic(broker, topic, "", plainVersion)
	if err != nil {
		return nil, err
	}
	if _, err := c.request(cmdProducer, message(nil).text(1, topic).number(2, 0).number(3, 1), cmdProducerSuccess); err != nil {
		return nil, err
	}
	return &producer{connection: c}, nil
}

// receive reads receipts. Each receipt makes room for another entry.
func (p *producer) receive(sums *produced, room chan struct{}) {
	for {
		frame, _, err := p.next()
		if err != nil {
			sums.ended.Add(1)
			fail("produce", err)
			return
		}
		kind, body, _, err := split(frame)
		switch {
		case err != nil, kind == cmdCloseProducer, kind == cmdError:
			sums.ended.Add(1)
			fail("produce", fmt.Errorf("producer ended by the broker: command %d, error %v", kind, err))
			return
		case kind == cmdSendReceipt:
			found, err := parse(body)
			if err != nil {
				fail("produce", err)
				return
			}
			sums.latency.add(time.Now().UnixNano()-int64(found.number[2]), 1)
			sums.receipts.Add(1)
			<-room
		case kind == cmdPing:
			p.pong()
		}
	}
}

// publish sends messages at the rate, as batches with -batched. The sequence id of an entry is its time of sending, in ns.
func publish(options *produceOptions, producers []*producer, sums *produced, room chan struct{}) error {
	payload := make([]byte, options.size)
	rand.New(rand.NewSource(1)).Read(payload)
	begin, sent := time.Now(), uint64(0)
	most := uint64(min(batchMostMessages, max(1, batchMostBytes/(options.size+singleMetadata+2))))
	for turn := 0; options.count == 0 || sent < options.count; turn++ {
		due := uint64(1)
		if options.batched {
			due = most
		}
		if options.rate > 0 {
			// Send all messages that are due, at most one batch; otherwise wait for the next one.
			for {
				owed := uint64(time.Since(begin).Seconds()*options.rate) + 1
				if owed > sent {
					due = min(due, owed-sent)
					break
				}
				time.Sleep(min(batchDelay, time.Duration(float64(time.Second)/options.rate)))
			}
		}
		if options.count > 0 {
			due = min(due, options.count-sent)
		}
		room <- struct{}{}
		p := producers[turn%len(producers)]
		if err := p.send(payload, due, options.batched); err != nil {
			return err
		}
		sent += due
		sums.messages.Add(due)
		sums.entries.Add(1)
	}
	return nil
}

func (p *producer) send(payload []byte, count uint64, batched bool) error {
	now := time.Now()
	p.sequence = max(p.sequence+1, uint64(now.UnixNano()))
	binary.BigEndian.PutUint64(payload, uint64(now.UnixNano()))
	metadata := message(nil).text(1, "load").number(2, p.sequence).number(3, uint64(now.UnixMilli()))
	body := message(nil).number(1, p.id).number(2, p.sequence).number(3, count)
	content := payload
	if batched {
		metadata = metadata.number(metaBatch, count)
		single := message(nil).number(3, uint64(len(payload)))
		content = make([]byte, 0, int(count)*(len(payload)+len(single)+singleMetadata))
		for range count {
			content = binary.BigEndian.AppendUint32(content, uint32(len(single)))
			content = append(append(content, single...), payload...)
		}
	}
	return p.write(appendSend(nil, body, metadata, content))
}
