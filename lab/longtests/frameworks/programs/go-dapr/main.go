// Consumes a topic with dapr's component pubsub.pulsar, and reports each event as a line of JSON.
package main

import (
	"context"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dapr/components-contrib/metadata"
	"github.com/dapr/components-contrib/pubsub"
	"github.com/dapr/components-contrib/pubsub/pulsar"
	"github.com/dapr/kit/logger"
)

var output sync.Mutex

func report(event map[string]any) {
	line, err := json.Marshal(event)
	if err != nil {
		panic(err)
	}
	output.Lock()
	defer output.Unlock()
	os.Stdout.Write(append(line, '\n'))
}

func setting(name string) int {
	value, err := strconv.Atoi(os.Getenv(name))
	if err != nil {
		panic(name + ": " + err.Error())
	}
	return value
}

func run() error {
	// The component puts the name together from its parts again.
	_, rest, _ := strings.Cut(os.Getenv("TOPIC"), "://")
	parts := strings.SplitN(rest, "/", 3)
	log := logger.NewLogger("dapr")
	log.SetOutput(os.Stderr)
	component := pulsar.NewPulsar(log)
	err := component.Init(context.Background(), pubsub.Metadata{Base: metadata.Base{Properties: map[string]string{
		"host":                     os.Getenv("SERVICE_URL"),
		"tenant":                   parts[0],
		"namespace":                parts[1],
		"consumerID":               os.Getenv("SUBSCRIPTION"),
		"subscribeType":            strings.ToLower(os.Getenv("SUBSCRIPTION_TYPE")),
		"subscribeInitialPosition": "earliest",
		"redeliveryDelay":          "1s",
		// The default calls 100 handlers at a time: the order would be that of the threads.
		"processMode": "sync",
	}}})
	if err != nil {
		return err
	}
	count, idle := setting("COUNT"), time.Duration(setting("IDLE_SECONDS"))*time.Second
	number, received := 0, make(chan bool, 1024)
	handle := func(_ context.Context, message *pubsub.NewMessage) error {
		number++
		report(map[string]any{"event": "message", "payload": string(message.Data), "id": nil, "redeliveries": nil})
		received <- number >= count
		return nil // acks
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := component.Subscribe(ctx, pubsub.SubscribeRequest{Topic: parts[2]}, handle); err != nil {
		return err
	}
	report(map[string]any{"event": "ready"})
	for waiting := true; waiting; {
		select {
		case all := <-received:
			waiting = !all
		case <-time.After(idle):
			waiting = false
		}
	}
	cancel()
	// A subscription acks its last message after the handler, and closes its consumer; the component has nothing to wait for it.
	time.Sleep(time.Second)
	return component.Close()
}

func main() {
	if err := run(); err != nil {
		report(map[string]any{"event": "error", "text": err.Error()})
		os.Exit(1)
	}
	report(map[string]any{"event": "done"})
}
