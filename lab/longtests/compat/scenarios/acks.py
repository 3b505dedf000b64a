"""Acks, redelivery, dead letters, delays, and flow control."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from longtests.compat.handles import COMES_MS
from longtests.compat.registry import Theme
from longtests.compat.scenarios.common import numbers, stored

if TYPE_CHECKING:
    from longtests.compat.handles import Client
    from longtests.compat.session import Session

acks = Theme("Acknowledgements")
again = Theme("Redelivery and delay")
flow = Theme("Flow")

_BATCH = {"max_messages": 10, "max_delay_ms": 10_000}
_BEHIND = "99"


def _come_back(client: Client, topic: str, at_least: int, **options: Any) -> list[str]:
    """Return the values of a new consumer; sorted, because Shared guarantees no order."""
    return sorted(client.consumer(topic, type="shared", **options).rest(at_least), key=int)


def _batch_and_one(client: Client, topic: str) -> None:
    """Publish a batch of ten and a single message: if the owner has the ack of the last one, it has the earlier ones."""
    client.producer(topic, batching=_BATCH).send_all(numbers(10))
    client.producer(topic).send(_BEHIND)


def _wait_hole(s: Session, topic: str) -> None:
    """Wait until the cursor has an ack after unacked messages."""
    s.until(lambda: s.view.acked_ranges(topic, "sub") != "[]", "an ack after the batch is stored")


@acks
def individual_holes(s: Session) -> Any:
    """Individual acks leave holes: only unacknowledged messages are redelivered."""
    client, topic = s.client(), s.topic()
    client.producer(topic).send_all(numbers(10))
    consumer = client.consumer(topic, type="shared")
    for message in consumer.take(10):
        if int(message.value) % 3 == 0:
            consumer.ack(message)
    consumer.close()
    s.wait_backlog(topic, 6)
    left = _come_back(client, topic, 6)
    s.equal(left, ["1", "2", "4", "5", "7", "8"], "remaining values")
    return left


@acks
def individual_exclusive(s: Session) -> Any:
    """Individual acks on an Exclusive subscription."""
    client, topic = s.client(), s.topic()
    client.producer(topic).send_all(numbers(10))
    consumer = client.consumer(topic)
    for message in consumer.take(10):
        if message.value in {"0", "1", "5"}:
            consumer.ack(message)
    consumer.close()
    s.wait_backlog(topic, 7)
    left = client.consumer(topic).rest(7)
    s.equal(left, ["2", "3", "4", "6", "7", "8", "9"], "remaining values")
    return left


@acks
def cumulative(s: Session) -> Any:
    """A cumulative ack covers all earlier messages."""
    client, topic = s.client(), s.topic()
    client.producer(topic).send_all(numbers(10))
    consumer = client.consumer(topic, type="failover")
    consumer.ack_cumulative(consumer.take(10)[5])
    s.wait_backlog(topic, 4)
    consumer.close()
    left = client.consumer(topic, type="failover").rest(4)
    s.equal(left, numbers(4, 6), "remaining values")
    return left


@acks
def cumulative_shared(s: Session) -> Any:
    """A cumulative ack on Shared is refused by the client."""
    client, topic = s.client(), s.topic()
    client.producer(topic).send("a")
    consumer = client.consumer(topic, type="shared")
    message = consumer.receive()
    return s.refused(lambda: consumer.ack_cumulative(message), "Other", "NotAllowed", "InvalidConfiguration")


@acks
def whole_batch(s: Session) -> Any:
    """A batch is acked when all its messages are."""
    client, topic = s.client(), s.topic()
    _batch_and_one(client, topic)
    consumer = client.consumer(topic, type="shared")
    messages = consumer.take(11)
    for message in (*messages[:9], messages[10]):
        consumer.ack(message)
    _wait_hole(s, topic)
    before = s.backlog(topic)
    consumer.ack(messages[9])
    s.wait_backlog(topic, 0)
    s.check(before > 0, "acked before its last message was")
    return [before, s.backlog(topic)]


@acks
def batch_index(s: Session) -> Any:
    """Batch-index acks: only unacknowledged messages of a batch are redelivered."""
    client, topic = s.client(), s.topic()
    _batch_and_one(client, topic)
    consumer = client.consumer(topic, type="shared", batch_index_ack=True)
    for message in consumer.take(11):
        if message.value in {"1", "4", "5", _BEHIND}:
            consumer.ack(message)
    _wait_hole(s, topic)
    consumer.close()
    left = _come_back(client, topic, 7, batch_index_ack=True)
    s.equal(left, ["0", "2", "3", "6", "7", "8", "9"], "remaining values")
    return left


@acks
def batch_index_cumulative(s: Session) -> Any:
    """A cumulative ack in the middle of a batch, with batch-index acks."""
    client, topic = s.client(), s.topic()
    client.producer(topic, batching=_BATCH).send_all(numbers(20))
    consumer = client.consumer(topic, batch_index_ack=True)
    consumer.ack_cumulative(consumer.take(20)[13])
    s.wait_backlog(topic, 1)
    consumer.close()
    left = client.consumer(topic, batch_index_ack=True).rest(6)
    s.equal(left, numbers(6, 14), "remaining values")
    return left


@acks
def batch_without_index(s: Session) -> Any:
    """Without batch-index acks, a partly acknowledged batch is redelivered completely."""
    client, topic = s.client(), s.topic()
    _batch_and_one(client, topic)
    consumer = client.consumer(topic, type="shared")
    messages = consumer.take(11)
    for message in (*messages[:4], messages[10]):
        consumer.ack(message)
    _wait_hole(s, topic)
    consumer.close()
    left = _come_back(client, topic, 10)
    s.equal(left, numbers(10), "remaining values")
    return left


@acks
def ack_receipt(s: Session) -> Any:
    """Ack receipts: an ack returns when the broker has confirmed it."""
    client, topic = s.client(), s.topic()
    client.producer(topic).send_all(numbers(5))
    consumer = client.consumer(topic, type="shared", ack_receipt=True)
    for message in consumer.take(5)[:3]:
        consumer.ack(message)
    backlog = s.backlog(topic)
    s.equal(backlog, 2, "backlog right after the acks")
    return backlog


@acks
def ack_list(s: Session) -> Any:
    """A list of messages acknowledged in one call."""
    client, topic = s.client(), s.topic()
    client.producer(topic).send_all(numbers(6))
    consumer = client.consumer(topic, type="shared")
    consumer.call("ack_list", ids=[message.id for message in consumer.take(6)[1:5]])
    s.wait_backlog(topic, 2)
    consumer.close()
    left = _come_back(client, topic, 2)
    s.equal(left, ["0", "5"], "remaining values")
    return left


@acks
def ack_grouped(s: Session) -> Any:
    """Acks that the client groups for 100 ms."""
    client, topic = s.client(), s.topic()
    client.producer(topic).send_all(numbers(100))
    consumer = client.consumer(topic, type="shared", ack_group_ms=100)
    values = sorted(consumer.values(100, ack=True), key=int)
    s.wait_backlog(topic, 0)
    s.equal(values, numbers(100), "received values")
    return values


@acks
def ack_stored(s: Session) -> Any:
    """Acks by ids that were stored as bytes, also by the next consumer, which has not received them."""
    client, topic = s.client(), s.topic()
    client.producer(topic).send_all(numbers(8))
    first = client.consumer(topic, type="shared")
    messages = {message.value: message for message in first.take(8)}
    for value in ("1", "2", "6"):
        first.ack(stored(messages[value]))
    s.wait_backlog(topic, 5)
    first.close()
    second = client.consumer(topic, type="shared")
    second.take(5)
    second.ack(stored(messages["0"]))
    s.wait_backlog(topic, 4)
    second.close()
    left = _come_back(client, topic, 4)
    s.equal(left, ["3", "4", "5", "7"], "remaining values")
    return left


@acks
def ack_stored_batch(s: Session) -> Any:
    """Acks by stored ids of all messages of a batch: the batch is acked, or comes again completely."""
    client, topic = s.client(), s.topic()
    _batch_and_one(client, topic)
    consumer = client.consumer(topic, type="shared")
    for message in consumer.take(11):
        consumer.ack(stored(message))
    s.until(lambda: s.backlog(topic) == 0 or s.view.acked_ranges(topic, "sub") != "[]", "the last ack is stored")
    consumer.close()
    left = _come_back(client, topic, 0)
    s.check(left in ([], numbers(10)), f"remaining values: {left}")
    return left


@acks
def cumulative_stored(s: Session) -> Any:
    """A cumulative ack by a stored id, by a new consumer that has not received it: all earlier messages are acked."""
    client, topic = s.client(), s.topic()
    client.producer(topic).send_all(numbers(10))
    first = client.consumer(topic)
    checkpoint = first.take(10)[5]
    first.close()
    # Grouped, because a client that a pool redirects has no connection for a moment, and drops single acks then.
    second = client.consumer(topic, ack_group_ms=100)
    second.ack_cumulative(stored(checkpoint))
    s.wait_backlog(topic, 4)
    second.close()
    left = client.consumer(topic).rest(4)
    s.equal(left, numbers(4, 6), "remaining values")
    return left


@again
def nack(s: Session) -> Any:
    """A negative ack redelivers a message after its delay, with its redelivery count."""
    client, topic = s.client(), s.topic()
    client.producer(topic).send_all(numbers(3))
    consumer = client.consumer(topic, type="shared", nack_delay_ms=300)
    seen = []
    for message in consumer.take(3):
        seen.append([message.value, message.redelivered])
        if message.value == "1":
            consumer.nack(message)
        else:
            consumer.ack(message)
    for _ in range(2):
        message = consumer.receive()
        seen.append([message.value, message.redelivered])
        consumer.nack(message)
    message = consumer.receive()
    consumer.ack(message)
    seen.append([message.value, message.redelivered])
    s.equal(seen, [["0", 0], ["1", 0], ["2", 0], ["1", 1], ["1", 2], ["1", 3]], "values and counts")
    return [*seen, consumer.rest()]


@again
def nack_exclusive(s: Session) -> Any:
    """A negative ack on an Exclusive subscription."""
    client, topic = s.client(), s.topic()
    client.producer(topic).send_all(numbers(4))
    consumer = client.consumer(topic)
    messages = consumer.take(4)
    for message in messages[:2]:
        consumer.ack(message)
    consumer.nack(messages[2])
    seen = consumer.values(2)
    s.check("2" in seen, f"the message is redelivered: {seen}")
    return seen


@again
def nack_batch(s: Session) -> Any:
    """A negative ack of one message of a batch."""
    client, topic = s.client(), s.topic()
    client.producer(topic, batching=_BATCH).send_all(numbers(10))
    consumer = client.consumer(topic, type="shared")
    for message in consumer.take(10):
        if message.value == "3":
            consumer.nack(message)
        else:
            consumer.ack(message)
    message = consumer.receive()
    rest = consumer.rest(ack=True)
    s.check("3" in [message.value, *rest], "the message is redelivered")
    return sorted([message.value, *rest], key=int)


@again
def redeliver_all(s: Session) -> Any:
    """Redelivery of all unacknowledged messages on request."""
    client, topic = s.client(), s.topic()
    client.producer(topic).send_all(numbers(6))
    consumer = client.consumer(topic, type="shared")
    messages = consumer.take(6)
    for message in messages[:2]:
        consumer.ack(message)
    s.wait_backlog(topic, 4)
    consumer.call("redeliver")
    messages = consumer.take(4)
    seen = sorted([message.value, message.redelivered] for message in messages)
    s.equal([value for value, _ in seen], numbers(4, 2), "redelivered values")
    return seen


@again
def redeliver_exclusive(s: Session) -> Any:
    """Redelivery on an Exclusive subscription: in order from the first unacknowledged message."""
    client, topic = s.client(), s.topic()
    client.producer(topic).send_all(numbers(8))
    consumer = client.consumer(topic)
    messages = consumer.take(8)
    for message in messages[:3]:
        consumer.ack(message)
    s.wait_backlog(topic, 5)
    consumer.call("redeliver")
    values = consumer.values(5)
    s.equal(values, numbers(5, 3), "redelivered values")
    return [values, consumer.rest()]


@again
def redeliver_then_close(s: Session) -> Any:
    """Redelivery on request right before the close: the next consumer gets all that is not acknowledged, in order."""
    client, topic = s.client(), s.topic()
    client.producer(topic).send_all(numbers(8))
    first = client.consumer(topic, queue=1)
    for message in first.take(5)[:3]:
        first.ack(message)
    s.wait_backlog(topic, 5)
    first.call("redeliver")
    first.close()
    left = client.consumer(topic).rest(5)
    s.equal(left, numbers(5, 3), "remaining values")
    return left


@again
def redelivery_on_close(s: Session) -> Any:
    """Shared: unacknowledged messages of a closed consumer go to another, counted as redelivered."""
    client, topic = s.client(), s.topic()
    client.producer(topic).send_all(numbers(5))
    first = client.consumer(topic, type="shared")
    first.take(5)
    second = client.consumer(topic, type="shared")
    first.close()
    seen = sorted([message.value, message.redelivered] for message in second.take(5))
    s.equal([value for value, _ in seen], numbers(5), "received by the second")
    return seen


@again
def ack_timeout(s: Session) -> Any:
    """Ack timeout: messages not acknowledged in time are redelivered."""
    client, topic = s.client(), s.topic()
    client.producer(topic).send_all(numbers(2))
    consumer = client.consumer(topic, type="shared", ack_timeout_ms=10_000)
    for message in consumer.take(2):
        if message.value == "0":
            consumer.ack(message)
    message = consumer.receive()
    consumer.ack(message)
    s.equal([message.value, message.redelivered > 0], ["1", True], "redelivered values")
    return [message.value, message.redelivered]


@again
def dead_letter(s: Session) -> Any:
    """Dead letter: after a number of deliveries a message goes to the dead letter topic."""
    client, topic, dead = s.client(), s.topic(), s.topic("dead")
    letters = client.consumer(dead, "letters")
    client.producer(topic).send_all(["good", "bad"], lambda value: {"properties": {"is": value}})
    consumer = client.consumer(
        topic,
        type="shared",
        nack_delay_ms=200,
        dead_letter={"max_redeliver": 2, "topic": dead, "initial_subscription": "init"},
    )
    deliveries = []
    for _ in range(4):
        message = consumer.receive()
        deliveries.append([message.value, message.redelivered])
        if message.value == "bad":
            consumer.nack(message)
        else:
            consumer.ack(message)
    letter = letters.receive()
    s.wait_backlog(topic, 0)
    s.equal(letter.value, "bad", "the dead letter")
    return [deliveries, letter.value, letter.raw["properties"]["is"], sorted(letter.raw["properties"])]


@again
def retry_letter(s: Session) -> Any:
    """Retry letter: a message is redelivered through the retry topic, then goes to the dead letter topic."""
    client, topic, retry, dead = s.client(), s.topic(), s.topic("retry"), s.topic("dead")
    letters = client.consumer(dead, "letters")
    policy = {"max_redeliver": 2, "topic": dead, "retry_topic": retry}
    consumer = client.consumer(topic, type="shared", retry=True, dead_letter=policy)
    client.producer(topic).send("x")
    seen = []
    for _ in range(3):
        message = consumer.receive()
        seen.append([message.value, message.raw["properties"].get("RECONSUMETIMES")])
        consumer.call("reconsume_later", id=message.id, delay_ms=500)
    letter = letters.receive()
    s.equal([seen[0][0], letter.value], ["x", "x"], "the message")
    return [seen, letter.value]


@again
def delayed(s: Session) -> Any:
    """Delayed delivery on Shared: not before its time, after other messages."""
    client, topic = s.client(), s.topic()
    producer = client.producer(topic)
    consumer = client.consumer(topic, type="shared")
    begin = time.monotonic()
    producer.send("later", deliver_after_ms=4_000)
    producer.send("now")
    first = consumer.receive()
    consumer.ack(first)
    second = consumer.receive()
    late = time.monotonic() - begin
    consumer.ack(second)
    s.equal([first.value, second.value], ["now", "later"], "the order")
    s.check(late > 2.9, f"delivered after {late:.1f} s")  # the broker's clock ticks once a second
    s.wait_backlog(topic, 0)
    return [first.value, second.value]


@again
def delayed_backlog(s: Session) -> Any:
    """Delayed messages of a backlog are delivered in the order of their times."""
    client, topic = s.client(), s.topic()
    consumer = client.consumer(topic, type="shared")
    consumer.close()
    producer = client.producer(topic)
    for name, delay in (("c", 7_000), ("a", 2_000), ("b", 4_500)):
        producer.send(name, deliver_after_ms=delay)
    producer.send("now")
    consumer = client.consumer(topic, type="shared")
    values = consumer.values(4, ack=True)
    s.equal(values, ["now", "a", "b", "c"], "the order")
    return values


@again
def delayed_exclusive(s: Session) -> Any:
    """Delayed messages on Exclusive are delivered at once, in order."""
    client, topic = s.client(), s.topic()
    producer = client.producer(topic)
    consumer = client.consumer(topic)
    producer.send("first", deliver_after_ms=60_000)
    producer.send("second")
    values = consumer.values(2)
    s.equal(values, ["first", "second"], "the order")
    return values


@flow
def small_queue(s: Session) -> Any:
    """A receiver queue of 1: never more messages in flight than permits."""
    client, topic = s.client(), s.topic()
    client.producer(topic).send_all(numbers(30))
    slow = client.consumer(topic, type="shared", queue=1)
    first = slow.values(1)
    other = client.consumer(topic, type="shared", queue=100)
    others = other.rest(15)
    got = sorted(first + others + slow.rest(), key=int)
    s.equal(got, numbers(30), "all together")
    # Go's client has up to a dozen messages in flight to its reader.
    s.check(len(others) >= 15, f"the other one gets messages beyond the slow one's permits: {len(others)}")
    return got


@flow
def zero_queue(s: Session) -> Any:
    """A receiver queue of 0: a message is delivered on request."""
    client, topic = s.client(), s.topic()
    client.producer(topic).send_all(numbers(10))
    first = client.consumer(topic, type="shared", queue=0)
    mine = [first.receive().value]
    other = client.consumer(topic, type="shared", queue=100)
    others = sorted(other.rest(9), key=int)
    s.equal(others, [n for n in numbers(10) if n not in mine], "the other one gets all the rest")
    return [len(mine), len(others)]


@flow
def small_queue_batches(s: Session) -> Any:
    """A receiver queue smaller than a batch."""
    client, topic = s.client(), s.topic()
    client.producer(topic, batching=_BATCH).send_all(numbers(40))
    values = client.consumer(topic, queue=3).values(40, ack=True)
    s.equal(values, numbers(40), "received values")
    s.wait_backlog(topic, 0)
    return values


@flow
def long_backlog(s: Session) -> Any:
    """A backlog over many ledgers, larger than the receiver queue."""
    client, topic = s.client(), s.topic()
    client.producer(topic).send_all(numbers(700))
    s.check(len(s.admin.internal_stats(topic)["ledgers"]) > 3, "the topic has many ledgers")
    values = client.consumer(topic, queue=50).values(700, ack=True)
    s.equal(values, numbers(700), "received values")
    s.wait_backlog(topic, 0)
    return len(values)


@flow
def batch_receive(s: Session) -> Any:
    """Batch receive: a number of messages in one call, fewer after its timeout."""
    client, topic = s.client(), s.topic()
    client.producer(topic).send_all(numbers(25))
    consumer = client.consumer(topic, batch_receive={"max_messages": 10, "max_bytes": -1, "timeout_ms": 3000})
    batches = [[m["value"] for m in consumer.call("batch_receive")["messages"]] for _ in range(3)]
    sizes = [len(batch) for batch in batches]
    s.equal(sum(sizes), 25, "messages of three calls")
    return sizes


@flow
def batch_receive_list(s: Session) -> Any:
    """Batch receive, and one ack of each list; the next consumer gets only what came later."""
    client, topic = s.client(), s.topic()
    producer = client.producer(topic)
    producer.send_all(numbers(25))
    consumer = client.consumer(
        topic, type="shared", batch_receive={"max_messages": 10, "max_bytes": -1, "timeout_ms": 3000}
    )
    got = []
    for _ in range(3):
        messages = consumer.call("batch_receive")["messages"]
        consumer.call("ack_list", ids=[message["id"] for message in messages])
        got += messages
    s.equal(len(got), 25, "messages of three calls")
    s.wait_backlog(topic, 0)
    consumer.close()
    producer.send("new")
    left = client.consumer(topic, type="shared").rest(1)
    s.equal(left, ["new"], "remaining values")
    return left


@flow
def listener(s: Session) -> Any:
    """A message listener gets messages in order."""
    client, topic = s.client(), s.topic()
    producer = client.producer(topic)
    consumer = client.consumer(topic, listener=True)
    producer.send_all(numbers(50))
    values = consumer.values(50, ack=True)
    s.equal(values, numbers(50), "values of the listener")
    s.wait_backlog(topic, 0)
    return values


@flow
def pause(s: Session) -> Any:
    """A paused consumer gets no more than its permits; after resuming it gets the rest."""
    client, topic = s.client(), s.topic()
    producer = client.producer(topic)
    consumer = client.consumer(topic, listener=True, queue=5)
    consumer.call("pause")
    producer.send_all(numbers(50))
    while_paused = len(consumer.rest(ack=True))
    consumer.call("resume")
    total = while_paused + len(consumer.take(50 - while_paused, ack=True, timeout_ms=COMES_MS))
    s.check(while_paused <= 10, f"while paused: {while_paused}")
    s.equal(total, 50, "all")
    return total


@flow
def waiting_receive(s: Session) -> Any:
    """A waiting receive returns when a message arrives."""
    client, topic = s.client(), s.topic()
    producer = client.producer(topic)
    consumer = client.consumer(topic)
    kind = s.refused(lambda: consumer.receive(300), "Timeout")
    waiting = consumer.begin("receive", timeout_ms=COMES_MS)
    producer.send("a")
    message = s.driver.result("receive", waiting)
    s.check(message["key"] is None, "a message without a key")
    return [kind, message["value"]]
