package main

import (
	"fmt"
	"math"
	"sync"

	"github.com/apache/pulsar-client-go/pulsar"
)

// ids are message ids that were told of, by their text.
type ids struct {
	lock sync.Mutex
	told map[string]pulsar.MessageID
}

func idText(id pulsar.MessageID) string {
	return fmt.Sprintf("%d:%d:%d:%d", id.LedgerID(), id.EntryID(), id.PartitionIdx(), id.BatchIdx())
}

// tell gives the text of an id, which is kept under it.
func (i *ids) tell(id pulsar.MessageID) string {
	i.lock.Lock()
	defer i.lock.Unlock()
	text := idText(id)
	i.told[text] = id
	return text
}

// of gives the id that a text stands for: one that was told of, or a new one. This client numbers the partition of a topic
// without partitions 0, and has consumers seek to no id with another one, neither to its own two edges.
func (i *ids) of(text string) pulsar.MessageID {
	switch text {
	case "earliest":
		return pulsar.NewMessageID(-1, -1, -1, 0)
	case "latest":
		return pulsar.NewMessageID(math.MaxInt64, math.MaxInt64, -1, 0)
	}
	i.lock.Lock()
	defer i.lock.Unlock()
	if id, there := i.told[text]; there {
		return id
	}
	var ledger, entry int64
	var partition, index int32
	if _, err := fmt.Sscanf(text, "%d:%d:%d:%d", &ledger, &entry, &partition, &index); err != nil {
		panic(badRequest(text + ": no message id"))
	}
	return pulsar.NewMessageID(ledger, entry, index, max(partition, 0))
}
