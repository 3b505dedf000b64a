"""Seeks, readers, table views, last message ids, compacted reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from longtests.compat.registry import Theme
from longtests.compat.scenarios.common import numbers, stored

if TYPE_CHECKING:
    from longtests.compat.session import Session

seeks = Theme("Seek")
readers = Theme("Readers and table views")

_BATCH = {"max_messages": 10, "max_delay_ms": 10_000}


@seeks
def seek_id(s: Session) -> Any:
    """Seek to a message id: delivery continues after it."""
    client, topic = s.client(), s.topic()
    ids = client.producer(topic).send_all(numbers(10))
    consumer = client.consumer(topic)
    consumer.values(10, ack=True)
    s.wait_backlog(topic, 0)
    consumer.seek(ids[4])
    values = consumer.rest(5, ack=True)
    s.equal(values, numbers(5, 5), "after the seek")
    return values


@seeks
def seek_inclusive(s: Session) -> Any:
    """Seek to a message id, inclusive."""
    client, topic = s.client(), s.topic()
    ids = client.producer(topic).send_all(numbers(10))
    consumer = client.consumer(topic, start_inclusive=True)
    consumer.values(10, ack=True)
    consumer.seek(ids[4])
    values = consumer.rest(6, ack=True)
    s.equal(values, numbers(6, 4), "after the seek")
    return values


@seeks
def seek_in_batch(s: Session) -> Any:
    """Seek to a message in the middle of a batch, inclusive."""
    client, topic = s.client(), s.topic()
    ids = client.producer(topic, batching=_BATCH).send_all(numbers(10))
    consumer = client.consumer(topic, start_inclusive=True)
    consumer.values(10, ack=True)
    consumer.seek(ids[6])
    values = consumer.rest(4, ack=True)
    s.check(values[-1:] == ["9"] and "6" in values, f"after the seek: {values}")
    return values


@seeks
def seek_at_once(s: Session) -> Any:
    """Seek right after the subscription, before a message is received."""
    client, topic = s.client(), s.topic()
    ids = client.producer(topic).send_all(numbers(10))
    consumer = client.consumer(topic, start_inclusive=True)
    consumer.seek(ids[4])
    values = consumer.rest(6, ack=True)
    s.equal(values, numbers(6, 4), "after the seek")
    s.wait_backlog(topic, 0)
    return values


@seeks
def seek_stored(s: Session) -> Any:
    """Seek to a stored id in the middle of a batch, by a new consumer: delivery continues after it."""
    client, topic = s.client(), s.topic()
    client.producer(topic, batching=_BATCH).send_all(numbers(10))
    first = client.consumer(topic)
    checkpoint = first.take(10)[6]
    first.close()
    second = client.consumer(topic)
    second.seek(stored(checkpoint))
    values = second.rest(3)
    s.equal(values, numbers(3, 7), "after the seek")
    return values


@seeks
def seek_earliest(s: Session) -> Any:
    """Seek to the earliest message."""
    client, topic = s.client(), s.topic()
    client.producer(topic).send_all(numbers(150))
    consumer = client.consumer(topic, type="shared")
    consumer.values(150, ack=True)
    s.wait_backlog(topic, 0)
    consumer.seek("earliest")
    values = sorted(consumer.values(150, ack=True), key=int)
    s.equal(values, numbers(150), "after the seek")
    s.wait_backlog(topic, 0)
    return values


@seeks
def seek_latest(s: Session) -> Any:
    """Seek to the latest message: only new messages are delivered."""
    client, topic = s.client(), s.topic()
    producer = client.producer(topic)
    producer.send_all(numbers(10))
    consumer = client.consumer(topic)
    consumer.values(3)
    consumer.seek("latest")
    s.wait_backlog(topic, 0)
    producer.send("new")
    values = consumer.values(1)
    s.equal(values, ["new"], "after the seek")
    return [values, consumer.rest()]


@seeks
def seek_time(s: Session) -> Any:
    """Seek to a time: delivery continues with the first message published then or later."""
    client, topic = s.client(), s.topic()
    producer = client.producer(topic)
    for value in numbers(6):
        producer.send(value)
    consumer = client.consumer(topic)
    messages = consumer.take(6, ack=True)
    times = [message.raw["publish_time"] for message in messages]
    consumer.seek({"time": times[3]})
    values = consumer.rest(3, ack=True)
    s.equal(values, [v for v, t in zip(numbers(6), times, strict=True) if t >= times[3]], "after the seek")
    return values[-3:]


@seeks
def seek_shared_two(s: Session) -> Any:
    """Shared: a seek of one consumer moves the subscription for all."""
    client, topic = s.client(), s.topic()
    ids = client.producer(topic).send_all(numbers(20))
    consumers = [client.consumer(topic, type="shared") for _ in range(2)]
    got: set[str] = set()

    def until(wanted: list[str]) -> None:
        got.clear()
        s.until(
            lambda: got.update(v for c in consumers for v in c.rest(ack=True, timeout_ms=500)) or got >= set(wanted),
            "all",
        )

    until(numbers(20))
    s.wait_backlog(topic, 0)
    consumers[0].seek(ids[9])
    until(numbers(10, 10))
    # Only the client of the seek skips the message itself; another consumer may get it.
    s.equal(sorted(got - {"9"}, key=int), numbers(10, 10), "after the seek")
    return sorted(got - {"9"}, key=int)


@seeks
def admin_reset(s: Session) -> Any:
    """An administrator resets a subscription's cursor under a connected consumer."""
    client, topic = s.client(), s.topic()
    client.producer(topic).send_all(numbers(10))
    consumer = client.consumer(topic)
    consumer.values(10, ack=True)
    s.wait_backlog(topic, 0)
    earliest = s.admin.internal_stats(topic)["ledgers"][0]["ledgerId"]
    s.view.reset(topic, "sub", type(s.admin.last_message_id(topic))(earliest, 0))
    values = consumer.values(10, ack=True)
    s.equal(values, numbers(10), "after the reset")
    return values


@seeks
def admin_skip(s: Session) -> Any:
    """An administrator skips a subscription's backlog; a consumer that connects then gets new messages only."""
    client, topic = s.client(), s.topic()
    consumer = client.consumer(topic)
    consumer.close()
    producer = client.producer(topic)
    producer.send_all(numbers(10))
    s.view.skip_all(topic, "sub")
    consumer = client.consumer(topic)
    producer.send("new")
    values = consumer.values(1)
    s.equal(values, ["new"], "after the skip")
    return [values, consumer.rest()]


@readers
def reader_earliest(s: Session) -> Any:
    """Reader from the earliest message, which follows the topic."""
    client, topic = s.client(), s.topic()
    producer = client.producer(topic)
    producer.send_all(numbers(150))
    reader = client.reader(topic)
    values = reader.values(150)
    producer.send_all(numbers(5, 150))
    values += reader.values(5)
    s.equal(values, numbers(155), "values of the reader")
    return values


@readers
def reader_latest(s: Session) -> Any:
    """Reader from the latest message: only new messages."""
    client, topic = s.client(), s.topic()
    producer = client.producer(topic)
    producer.send_all(numbers(5))
    reader = client.reader(topic, "latest")
    producer.send("new")
    values = reader.values(1)
    s.equal(values, ["new"], "values of the reader")
    return [values, reader.rest()]


@readers
def reader_latest_inclusive(s: Session) -> Any:
    """Reader from the latest message, inclusive: the last message first."""
    client, topic = s.client(), s.topic()
    producer = client.producer(topic)
    producer.send_all(numbers(5))
    reader = client.reader(topic, "latest", inclusive=True)
    s.check(reader.call("has_next")["has"], "there is a message")
    values = reader.values(1)
    s.equal(values, ["4"], "values of the reader")
    return [values, reader.rest()]


@readers
def reader_id(s: Session) -> Any:
    """Reader from a message id, exclusive and inclusive."""
    client, topic = s.client(), s.topic()
    ids = client.producer(topic).send_all(numbers(10))
    seen = [client.reader(topic, ids[6]).rest(3), client.reader(topic, ids[6], inclusive=True).rest(4)]
    s.equal(seen, [numbers(3, 7), numbers(4, 6)], "values of the reader")
    return seen


@readers
def reader_in_batch(s: Session) -> Any:
    """Reader from the middle of a batch, exclusive and inclusive."""
    client, topic = s.client(), s.topic()
    ids = client.producer(topic, batching=_BATCH).send_all(numbers(10))
    seen = [client.reader(topic, ids[6]).rest(3), client.reader(topic, ids[6], inclusive=True).rest(4)]
    s.equal(seen, [numbers(3, 7), numbers(4, 6)], "values of the reader")
    return seen


@readers
def reader_stored(s: Session) -> Any:
    """Reader from a stored id in the middle of a batch, exclusive and inclusive."""
    client, topic = s.client(), s.topic()
    ids = client.producer(topic, batching=_BATCH).send_all(numbers(10))
    at = stored(ids[6])
    seen = [client.reader(topic, at).rest(3), client.reader(topic, at, inclusive=True).rest(4)]
    s.equal(seen, [numbers(3, 7), numbers(4, 6)], "values of the reader")
    return seen


@readers
def reader_seek(s: Session) -> Any:
    """Reader: seek to an id and to the earliest message."""
    client, topic = s.client(), s.topic()
    ids = client.producer(topic).send_all(numbers(10))
    reader = client.reader(topic)
    reader.values(10)
    reader.seek(ids[6])
    seen = [reader.rest(3)]
    reader.seek("earliest")
    seen.append(reader.values(10))
    s.equal(seen, [numbers(3, 7), numbers(10)], "values of the reader")
    return seen


@readers
def reader_time(s: Session) -> Any:
    """Reader: seek to a time."""
    client, topic = s.client(), s.topic()
    client.producer(topic).send_all(numbers(3))
    client.producer(topic).send("last")
    reader = client.reader(topic)
    times = [message.raw["publish_time"] for message in reader.take(4)]
    reader.seek({"time": times[0]})
    values = reader.values(4)
    s.equal(values, [*numbers(3), "last"], "values of the reader")
    return values


@readers
def reader_has_next(s: Session) -> Any:
    """Reader: hasMessageAvailable returns at once whether there are more messages."""
    client, topic = s.client(), s.topic()
    client.producer(topic).send_all(numbers(5))
    reader = client.reader(topic)
    values = []
    while reader.call("has_next")["has"]:
        values += reader.values(1, timeout_ms=30_000)
    s.equal(values, numbers(5), "values until there are no more")
    return values


@readers
def reader_has_next_empty(s: Session) -> Any:
    """Reader: hasMessageAvailable on an empty topic, and after the last message."""
    client, empty, topic = s.client(), s.topic(), s.topic()
    client.producer(empty).close()
    client.producer(topic).send("a")
    seen = [client.reader(empty).call("has_next")["has"], client.reader(topic, "latest").call("has_next")["has"]]
    s.equal(seen, [False, False], "more to read")
    return seen


@readers
def reader_named(s: Session) -> Any:
    """Reader with a subscription name of its own: the owner lists it while it is connected."""
    client, topic = s.client(), s.topic()
    client.producer(topic).send("a")
    reader = client.reader(topic, subscription="my-reader")
    value = reader.receive().value
    s.equal(s.subscriptions(topic), ["my-reader"], "subscriptions")
    reader.close()
    s.until(lambda: s.subscriptions(topic) == [], "the subscription is deleted")
    return value


@readers
def reader_ranges(s: Session) -> Any:
    """Reader of a range of key hashes."""
    client, topic = s.client(), s.topic()
    client.producer(topic).send_all(numbers(32), lambda value: {"key": value})
    low, high = (client.reader(topic, key_hash_ranges=ranges).rest(1) for ranges in ([[0, 32767]], [[32768, 65535]]))
    s.equal(sorted(low + high, key=int), numbers(32), "both together")
    return [low, high]


@readers
def reader_partitions(s: Session) -> Any:
    """Reader of a partitioned topic."""
    client, topic = s.client(), s.topic(partitions=3)
    client.producer(topic).send_all(numbers(30), lambda value: {"key": value})
    values = sorted(client.reader(topic).values(30), key=int)
    s.equal(values, numbers(30), "values of the reader")
    return values


@readers
def reader_many(s: Session) -> Any:
    """20 readers of one topic on one connection."""
    client, topic = s.client(), s.topic()
    producer = client.producer(topic)
    producer.send_all(numbers(20))
    readers_ = [client.reader(topic) for _ in range(20)]
    seen = [reader.values(20) for reader in readers_]
    producer.send("tail")
    seen_tail = [reader.values(1) for reader in readers_]
    s.equal(seen, [numbers(20)] * 20, "values of each reader")
    s.equal(seen_tail, [["tail"]] * 20, "later values of each reader")
    return len(seen)


@readers
def table_view(s: Session) -> Any:
    """Table view: the latest value of each key, kept up to date."""
    client, topic = s.client(), s.topic()
    producer = client.producer(topic, schema="string")
    for key, value in (("a", "1"), ("b", "1"), ("a", "2")):
        producer.send(value, key=key)
    view = client.table_view(topic)
    before = s.until(lambda: (e := view.call("table")["entries"]) == {"a": "2", "b": "1"} and e, "the first table")
    producer.send("3", key="b")
    after = s.until(
        lambda: (e := view.call("table")["entries"]) == {"a": "2", "b": "3"} and e, "the table after the update"
    )
    return [before, after]


@readers
def compacted(s: Session) -> Any:
    """Compacted reads: the latest message of each key of a compacted topic."""
    client, topic = s.client(), s.topic()
    producer = client.producer(topic)
    for number in range(30):
        producer.send(str(number), key=f"k{number % 3}")
    s.admin.compact(topic)
    s.until(lambda: s.admin.internal_stats(topic)["compactedLedger"]["entries"] == 3, "compacted")
    producer.send("30", key="k0")
    consumer = client.consumer(topic, read_compacted=True)
    reader = client.reader(topic, read_compacted=True)
    whole = client.reader(topic)
    seen = [consumer.values(4), reader.values(4), whole.values(31)]
    s.equal(seen, [["27", "28", "29", "30"], ["27", "28", "29", "30"], numbers(31)], "consumer, reader, plain reader")
    return seen


@readers
def table_view_compacted(s: Session) -> Any:
    """Table view of a compacted topic."""
    client, topic = s.client(), s.topic()
    producer = client.producer(topic, schema="string")
    for number in range(30):
        producer.send(str(number), key=f"k{number % 3}")
    s.admin.compact(topic)
    s.until(lambda: s.admin.internal_stats(topic)["compactedLedger"]["entries"] == 3, "compacted")
    producer.send("30", key="k0")
    view = client.table_view(topic)
    wanted = {"k0": "30", "k1": "28", "k2": "29"}
    return s.until(lambda: (e := view.call("table")["entries"]) == wanted and e, "the table")


@readers
def last_message_id(s: Session) -> Any:
    """Last message id of a consumer: the last published message, also inside of a batch."""
    client, topic = s.client(), s.topic()
    producer = client.producer(topic)
    ids = producer.send_all(numbers(3))
    consumer = client.consumer(topic)
    plain = consumer.last_id().split(":")[:2] == ids[-1].split(":")[:2]
    batched = client.producer(topic, batching=_BATCH).send_all(numbers(10))
    last = consumer.last_id().split(":")
    seen = [plain, last[:2] == batched[-1].split(":")[:2], last[3]]
    s.equal(seen, [True, True, "9"], "last ids")
    return seen


@readers
def until_last_id(s: Session) -> Any:
    """Reading up to the last message id of the beginning, while new messages come; a cumulative ack there leaves these."""
    client, topic = s.client(), s.topic()
    producer = client.producer(topic)
    producer.send_all(numbers(120))
    consumer = client.consumer(topic)
    end = consumer.last_id().split(":")[:2]
    producer.send_all(numbers(30, 120))
    values = []
    while len(values) < 150:
        message = consumer.receive()
        values.append(message.value)
        if message.id.split(":")[:2] == end:
            consumer.ack_cumulative(message)
            break
    s.equal(values, numbers(120), "values up to the end")
    s.wait_backlog(topic, 30)
    return values


@readers
def last_message_id_empty(s: Session) -> Any:
    """Last message id of an empty topic."""
    client, topic = s.client(), s.topic()
    client.producer(topic).close()
    last = client.consumer(topic).last_id().split(":")
    s.equal(last[1], "-1", "its entry")
    return last[1:]
