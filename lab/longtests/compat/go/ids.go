package main

import (
	"fmt"
	"math"
	"strings"
	"sync"

	"github.com/apache/pulsar-client-go/pulsar"
)

const stored = "stored/"

// readBack returns an id as it is after it was stored as bytes.
func readBack(id pulsar.MessageID) pulsar.MessageID {
	read, err := pulsar.DeserializeMessageID(id.Serialize())
	must(err)
	return read
}

// ids are the message ids of answers, by their text.
type ids struct {
	lock sync.Mutex
	told map[string]pulsar.MessageID
}

func idText(id pulsar.MessageID) string {
	return fmt.Sprintf("%d:%d:%d:%d", id.LedgerID(), id.EntryID(), id.PartitionIdx(), id.BatchIdx())
}

// tell returns the text of an id, and keeps the id by its text.
func (i *ids) tell(id pulsar.MessageID) string {
	i.lock.Lock()
	defer i.lock.Unlock()
	text := idText(id)
	i.told[text] = id
	return text
}

// of returns the id of a text: a kept one, or a new one. In this client, a topic without partitions has partition 0. Its
// consumers cannot seek to an id with another partition, nor to its own earliest and latest ids.
func (i *ids) of(text string) pulsar.MessageID {
	switch text {
	case "earliest":
		return pulsar.NewMessageID(-1, -1, -1, 0)
	case "latest":
		return pulsar.NewMessageID(math.MaxInt64, math.MaxInt64, -1, 0)
	}
	if rest, isStored := strings.CutPrefix(text, stored); isStored {
		return readBack(i.of(rest))
	}
	i.lock.Lock()
	defer i.lock.Unlock()
	if id, there := i.told[text]; there {
		return id
	}
	var ledger, entry int64
	var partition, index int32
	if _, err := fmt.Sscanf(text, "%d:%d:%d:%d", &ledger, &entry, &partition, &index); err != nil {
		panic(badRequest(text + ": invalid message id"))
	}
	return pulsar.NewMessageID(ledger, entry, index, max(partition, 0))
}
