package main

import (
	"context"
	"encoding/base64"
	"sync"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

// held is the object of a handle.
type held struct {
	thing  any
	values values
	// Channels into which the client pushes messages, if not nil.
	consumed chan pulsar.ConsumerMessage
	read     chan pulsar.ReaderMessage

	lock     sync.Mutex
	received map[string]pulsar.Message
	events   [][2]string
}

func newHeld(thing any, values values) *held {
	return &held{thing: thing, values: values, received: map[string]pulsar.Message{}, events: [][2]string{}}
}

// receive returns the next message.
func (h *held) receive(timeout time.Duration) (pulsar.Message, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	message, err := h.next(ctx)
	if err != nil {
		return nil, err
	}
	h.lock.Lock()
	defer h.lock.Unlock()
	h.received[idText(message.ID())] = message
	return message, nil
}

func (h *held) next(ctx context.Context) (pulsar.Message, error) {
	switch thing := h.thing.(type) {
	case pulsar.Reader:
		if h.read == nil {
			return thing.Next(ctx)
		}
		select {
		case message := <-h.read:
			return message.Message, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	case pulsar.Consumer:
		if h.consumed == nil {
			return thing.Receive(ctx)
		}
		select {
		case message := <-h.consumed:
			return message.Message, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return nil, badRequest("no consumer or reader")
}

// message returns the last received message with this id, or nil.
func (h *held) message(id string) pulsar.Message {
	h.lock.Lock()
	defer h.lock.Unlock()
	return h.received[id]
}

// BecameActive records that the broker made this failover consumer active.
func (h *held) BecameActive(_ pulsar.Consumer, topic string, _ int32) { h.event("active", topic) }

// BecameInactive records that the broker made this failover consumer inactive.
func (h *held) BecameInactive(_ pulsar.Consumer, topic string, _ int32) { h.event("inactive", topic) }

func (h *held) event(what string, topic string) {
	h.lock.Lock()
	defer h.lock.Unlock()
	h.events = append(h.events, [2]string{what, topic})
}

func (h *held) allEvents() [][2]string {
	h.lock.Lock()
	defer h.lock.Unlock()
	return append([][2]string{}, h.events...)
}

// json returns a received message. The client does not expose the sequence id.
func (h *held) json(message pulsar.Message) map[string]any {
	encrypted := message.GetEncryptionContext() != nil
	read := h.values
	if encrypted {
		read = values{kind: "bytes"}
	}
	told := map[string]any{
		"id":               idText(message.ID()),
		"topic":            message.Topic(),
		"value":            read.value(message),
		"key":              orNull(message.Key()),
		"ordering_key":     orNull(base64.StdEncoding.EncodeToString([]byte(message.OrderingKey()))),
		"properties":       properties(message),
		"event_time":       milliseconds(message.EventTime()),
		"publish_time":     milliseconds(message.PublishTime()),
		"producer":         message.ProducerName(),
		"redelivery_count": message.RedeliveryCount(),
		"encrypted":        encrypted,
		"index":            nil,
		"broker_time":      nil,
	}
	if index := message.Index(); index != nil {
		told["index"] = *index
	}
	if stored := message.BrokerPublishTime(); stored != nil {
		told["broker_time"] = milliseconds(*stored)
	}
	if read.schema == nil || len(message.SchemaVersion()) > 0 { // else the client does not expose it
		told["schema_version"] = orNull(base64.StdEncoding.EncodeToString(message.SchemaVersion()))
	}
	return told
}

func properties(message pulsar.Message) map[string]string {
	if all := message.Properties(); all != nil {
		return all
	}
	return map[string]string{}
}

func milliseconds(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.UnixMilli()
}

func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}
