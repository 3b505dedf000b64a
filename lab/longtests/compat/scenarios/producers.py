"""Producers through the service URL, and transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from longtests.compat.handles import NOTHING_MS
from longtests.compat.registry import Theme
from longtests.compat.scenarios.common import numbers

if TYPE_CHECKING:
    from longtests.compat.session import Session

theme = Theme("Producers")
transactions = Theme("Transactions")


@theme
def many_messages(s: Session) -> Any:
    """1,000 messages in batches, none lost, in order."""
    client, topic = s.client(), s.topic()
    producer = client.producer(topic, batching={"max_messages": 50, "max_delay_ms": 10})
    ids = producer.send_all(numbers(1000))
    s.equal(len(set(ids)), 1000, "ids")
    values = client.consumer(topic).values(1000)
    s.equal(values, numbers(1000), "received values")
    return len(values)


@theme
def name_taken(s: Session) -> Any:
    """A producer name in use is refused, and available after closing."""
    client, other, topic = s.client(), s.client(), s.topic()
    first = client.producer(topic, name="me")
    kind = s.refused(lambda: other.producer(topic, name="me"), "ProducerBusy", "NotAllowed", "Other", "ProducerFenced")
    first.close()
    name = other.producer(topic, name="me").told["name"]
    s.equal(name, "me", "the name")
    return [kind, name]


@theme
def access_exclusive(s: Session) -> Any:
    """Exclusive access: a second producer is refused."""
    client, topic = s.client(), s.topic()
    first = client.producer(topic, access="exclusive")
    kinds = [
        s.refused(lambda: client.producer(topic, access="exclusive"), "ProducerFenced", "ProducerBusy", "Other"),
        s.refused(lambda: client.producer(topic), "ProducerBusy", "ProducerFenced", "Other"),
    ]
    first.send("a")
    return [kinds, client.consumer(topic).receive().value]


@theme
def access_waits(s: Session) -> Any:
    """Waiting for exclusive access: the next producer gets it when the first closes."""
    client, topic = s.client(), s.topic()
    first = client.producer(topic, access="exclusive")
    name = f"waiting-{s.tag}"
    waiting = s.driver.begin("producer", **{"as": name}, client=client.name, topic=topic, access="wait")
    first.send("a")
    s.check(not waiting.done(), "it waits")
    first.close()
    s.driver.result("producer", waiting)
    s.driver.call("send", on=name, value="Yg==")
    values = client.consumer(topic).values(2)
    s.equal(values, ["a", "b"], "received values")
    return values


@theme
def access_fencing(s: Session) -> Any:
    """Exclusive access with fencing: the former producer is fenced."""
    client, topic = s.client(), s.topic()
    first = client.producer(topic, access="exclusive")
    first.send("a")
    second = client.producer(topic, access="fencing")
    second.send("b")
    kind = s.refused(lambda: first.send("c"), "ProducerFenced", "AlreadyClosed", "Other", "NotConnected", "Timeout")
    values = client.consumer(topic).rest(2)
    s.equal(values, ["a", "b"], "received values")
    return [kind, values]


@theme
def deduplication(s: Session) -> Any:
    """Deduplication: a repeated sequence id is dropped; a producer that reconnects gets its last one."""
    client, topic = s.client(), s.topic(namespace=s.place.dedup_namespace)
    producer = client.producer(topic, name="me")
    for sequence_id in (1, 2, 2, 1, 3):
        producer.send(str(sequence_id), sequence_id=sequence_id)
    producer.close()
    last = client.producer(topic, name="me").told["last_sequence_id"]
    values = client.consumer(topic).rest(3)
    s.equal([last, values], [3, ["1", "2", "3"]], "last sequence id and received values")
    return [last, values]


_WAYS: Final[tuple[dict[str, Any] | None, ...]] = (None, {"max_messages": 10, "max_delay_ms": 5})


def _publish_in_all_ways(s: Session, namespace: str) -> Any:
    """Publish with new producers concurrently, synchronously and not, single and in batches; return the stored values."""
    client, seen = s.client(), []
    for batching in _WAYS:
        for waiting in (True, False):
            for _ in range(3):
                topic = s.topic(namespace=namespace)
                producer = client.producer(topic, batching=batching)
                if waiting:
                    for value in numbers(10):
                        producer.send(value)
                else:
                    producer.send_all(numbers(10))
                producer.send_all(numbers(30, 10))
                seen.append(client.reader(topic).rest(40))
    s.equal(seen, [numbers(40)] * len(seen), "stored values of each producer")
    return len(seen)


@theme
def deduplication_stores_all(s: Session) -> Any:
    """Deduplication: messages of new producers are stored once, in order: single and batched, synchronous and asynchronous."""
    return _publish_in_all_ways(s, s.place.dedup_namespace)


@theme
def plain_stores_all(s: Session) -> Any:
    """Without deduplication: messages of new producers are stored once, in order."""
    return _publish_in_all_ways(s, s.place.namespace)


@theme
def deduplication_unload(s: Session) -> Any:
    """Deduplication: the topic is unloaded repeatedly during publishing: each message is stored once, in order."""
    client, topic = s.client(), s.topic(namespace=s.place.dedup_namespace)
    producer = client.producer(topic)
    producer.send("0")
    for start in range(1, 121, 40):
        sending = producer.begin("send_many", messages=[{"value": producer.content(v)} for v in numbers(40, start)])
        s.admin.unload(topic)
        s.driver.result("send_many", sending)
    values = client.reader(topic).rest(121)
    s.equal(values, numbers(121), "stored values")
    return len(values)


@theme
def stays_connected(s: Session) -> Any:
    """A producer is connected right after its creation, and stays connected."""
    client, seen = s.client(), []
    producer = client.producer(s.topic())
    for value in numbers(20):
        seen.append(producer.call("connected")["connected"])
        producer.send(value)
    s.equal(seen, [True] * 20, "connected, before each message")
    return len(seen)


@theme
def routing_by_key(s: Session) -> Any:
    """Partitioned topic: a key always goes to the same partition."""
    client, topic = s.client(), s.topic(partitions=4)
    producer = client.producer(topic)
    ids = producer.send_all(numbers(40), lambda value: {"key": f"k{int(value) % 8}"})
    partitions = [message_id.split(":")[2] for message_id in ids]
    s.check(all(partitions[n] == partitions[n % 8] for n in range(40)), "one partition for each key")
    s.check(len(set(partitions)) > 1, "several partitions")
    return partitions[:8]


@theme
def routing_single(s: Session) -> Any:
    """Partitioned topic: without keys, a single partition."""
    client, topic = s.client(), s.topic(partitions=4)
    ids = client.producer(topic, routing="single").send_all(numbers(20))
    used = {message_id.split(":")[2] for message_id in ids}
    s.equal(len(used), 1, "partitions used")
    values = sorted(client.consumer(topic).values(20), key=int)
    s.equal(values, numbers(20), "received values")
    return values


@theme
def receipts(s: Session) -> Any:
    """Receipts have the id with which the message is received."""
    client, topic = s.client(), s.topic()
    ids = client.producer(topic).send_all(numbers(20))
    messages = client.consumer(topic).take(20)
    same = [message.id.split(":")[:2] == sent.split(":")[:2] for message, sent in zip(messages, ids, strict=True)]
    s.check(all(same), "ids are the same")
    return len(same)


@transactions
def commit(s: Session) -> Any:
    """Messages of a transaction are delivered after its commit, not before."""
    client, topic = s.client(transactions=True), s.topic()
    producer = client.producer(topic, send_timeout_ms=0)
    consumer = client.consumer(topic)
    producer.send("before")
    txn = client.transaction()
    for value in ("a", "b"):
        producer.send(value, txn=txn.name)
    producer.send("plain")
    open_ = consumer.rest(1, timeout_ms=2 * NOTHING_MS)
    txn.call("commit")
    rest = consumer.values(3)
    s.equal([open_, rest], [["before"], ["a", "b", "plain"]], "while it is open, and then")
    return [open_, rest]


@transactions
def abort(s: Session) -> Any:
    """Messages of an aborted transaction are never delivered."""
    client, topic = s.client(transactions=True), s.topic()
    producer = client.producer(topic, send_timeout_ms=0)
    consumer = client.consumer(topic)
    txn = client.transaction()
    producer.send("never", txn=txn.name)
    producer.send("plain")
    txn.call("abort")
    values = consumer.values(1, ack=True)
    s.equal(values, ["plain"], "received values")
    s.wait_backlog(topic, 0)
    return [values, consumer.rest()]


@transactions
def abort_shared(s: Session) -> Any:
    """Shared: committed, aborted and plain messages together."""
    client, topic = s.client(transactions=True), s.topic()
    producer = client.producer(topic, send_timeout_ms=0)
    consumer = client.consumer(topic, type="shared")
    for number in range(6):
        txn = client.transaction()
        producer.send(f"t{number}", txn=txn.name)
        producer.send(f"p{number}")
        txn.call("commit" if number % 2 else "abort")
    wanted = [f"p{n}" for n in range(6)] + ["t1", "t3", "t5"]
    values = sorted(consumer.values(9, ack=True))
    s.equal(values, wanted, "received values")
    s.wait_backlog(topic, 0)
    return [values, consumer.rest()]


@transactions
def transaction_backlog(s: Session) -> Any:
    """A backlog with ended transactions, read by a reader and by a new subscription."""
    client, topic = s.client(transactions=True), s.topic()
    producer = client.producer(topic, send_timeout_ms=0)
    for end in ("commit", "abort", "commit"):
        txn = client.transaction()
        producer.send(end, txn=txn.name)
        txn.call(end)
    producer.send("last")
    seen = [client.reader(topic).values(3), client.consumer(topic).values(3), client.consumer(topic, "two").rest(3)]
    s.equal(seen, [["commit", "commit", "last"]] * 3, "received by each")
    return seen


@transactions
def ack_committed(s: Session) -> Any:
    """Acks in a committed transaction take effect."""
    client, topic = s.client(transactions=True), s.topic()
    client.producer(topic).send_all(numbers(4))
    consumer = client.consumer(topic, type="shared")
    messages = consumer.take(4)
    txn = client.transaction()
    for message in messages[:3]:
        consumer.ack(message, txn=txn.name)
    s.equal(s.backlog(topic), 4, "backlog while it is open")
    txn.call("commit")
    s.wait_backlog(topic, 1)
    consumer.close()
    left = client.consumer(topic, type="shared").rest(1)
    s.equal(left, ["3"], "remaining values")
    return left


@transactions
def ack_aborted(s: Session) -> Any:
    """Acks in an aborted transaction have no effect: the messages are redelivered."""
    client, topic = s.client(transactions=True), s.topic()
    client.producer(topic).send_all(numbers(4))
    consumer = client.consumer(topic, type="shared")
    messages = consumer.take(4)
    txn = client.transaction()
    for message in messages[:3]:
        consumer.ack(message, txn=txn.name)
    consumer.ack(messages[3])
    txn.call("abort")
    s.wait_backlog(topic, 3)
    consumer.close()
    left = sorted(client.consumer(topic, type="shared").rest(3))
    s.equal(left, ["0", "1", "2"], "remaining values")
    return left


@transactions
def ack_conflict(s: Session) -> Any:
    """A message acknowledged in an open transaction cannot be acknowledged in another."""
    client, topic = s.client(transactions=True), s.topic()
    client.producer(topic).send("a")
    consumer = client.consumer(topic, type="shared")
    message = consumer.receive()
    first, second = client.transaction(), client.transaction()
    consumer.ack(message, txn=first.name)
    kind = s.refused(lambda: consumer.ack(message, txn=second.name), "TransactionConflict", "Other", "NotAllowed")
    first.call("commit")
    s.wait_backlog(topic, 0)
    return kind


@transactions
def consume_and_produce(s: Session) -> Any:
    """Consume, produce and ack in one transaction."""
    client, source, sink = s.client(transactions=True), s.topic("source"), s.topic("sink")
    client.producer(source).send_all(numbers(5))
    consumer = client.consumer(source, type="shared")
    producer = client.producer(sink, send_timeout_ms=0)
    result = client.consumer(sink)
    for message in consumer.take(5):
        txn = client.transaction()
        producer.send(f"{message.value}!", txn=txn.name)
        consumer.ack(message, txn=txn.name)
        txn.call("commit")
    values = result.values(5, ack=True)
    s.equal(values, [f"{n}!" for n in numbers(5)], "received values")
    s.wait_backlog(source, 0)
    return values


@transactions
def last_id_while_open(s: Session) -> Any:
    """The last message id, and hasMessageAvailable, stop before an open transaction."""
    client, topic = s.client(transactions=True), s.topic()
    producer = client.producer(topic, send_timeout_ms=0)
    first = producer.send("a")
    txn = client.transaction()
    producer.send("b", txn=txn.name)
    reader = client.reader(topic)
    values = reader.values(1)
    has = reader.call("has_next")["has"]
    last = client.consumer(topic).last_id().split(":")[:2] == first.split(":")[:2]
    txn.call("abort")
    s.equal([values, has, last], [["a"], False, True], "values, more, last id")
    return [values, has, last]
