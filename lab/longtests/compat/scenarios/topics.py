"""Kinds of topics: partitioned, several, patterns, terminated, deleted, non-persistent; and their errors."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from longtests.compat.handles import NOTHING_MS
from longtests.compat.registry import Theme
from longtests.compat.scenarios.common import numbers, together

if TYPE_CHECKING:
    from longtests.compat.session import Session

theme = Theme("Topics")


def _short(topic: str) -> str:
    return topic.rsplit("/", 1)[1].partition("-")[2]


@theme
def partitions(s: Session) -> Any:
    """The partitions of a topic are listed."""
    client, topic = s.client(), s.topic(partitions=4)
    names = [_short(name) for name in client.partitions(topic)]
    s.equal(len(names), 4, "partitions")
    plain = s.topic()
    return [names, [_short(name) for name in client.partitions(plain)]]


@theme
def partitioned(s: Session) -> Any:
    """A partitioned topic, consumed as one, in order per partition."""
    client, topic = s.client(), s.topic(partitions=3)
    client.producer(topic).send_all(numbers(60), lambda value: {"key": f"k{int(value) % 7}"})
    messages = client.consumer(topic).take(60, ack=True)
    seen: dict[str, list[str]] = {}
    for message in messages:
        seen.setdefault(_short(message.raw["topic"]), []).append(message.value)
    s.equal(sorted(together(seen.values()), key=int), numbers(60), "all together")
    s.check(all(values == sorted(values, key=int) for values in seen.values()), "order in each partition")
    s.until(lambda: sum(s.backlog(f"{topic}-partition-{n}") for n in range(3)) == 0, "all are acked")
    return dict(sorted(seen.items()))


@theme
def partitioned_shared(s: Session) -> Any:
    """A partitioned topic, several Shared consumers."""
    client, topic = s.client(), s.topic(partitions=3)
    consumers = [client.consumer(topic, type="shared", queue=6) for _ in range(2)]
    client.producer(topic).send_all(numbers(60), lambda value: {"key": value})
    got: list[str] = []
    s.until(lambda: got.extend(v for c in consumers for v in c.rest(ack=True, timeout_ms=300)) or len(got) >= 60, "all")
    s.equal(sorted(got, key=int), numbers(60), "all together")
    return sorted(got, key=int)


@theme
def one_partition(s: Session) -> Any:
    """One partition of a topic, by its name."""
    client, topic = s.client(), s.topic(partitions=3)
    client.producer(topic).send_all(numbers(30), lambda value: {"key": value})
    per_partition = [client.consumer(f"{topic}-partition-{n}").rest(1, ack=True) for n in range(3)]
    s.equal(sorted(together(per_partition), key=int), numbers(30), "all together")
    return per_partition


@theme
def partitions_grow(s: Session) -> Any:
    """A partition that is added later is consumed."""
    client, topic = s.client(), s.topic(partitions=2)
    consumer = client.consumer(topic, discovery_ms=1000)
    s.admin.update_partitions(topic, 3)
    producer = client.producer(f"{topic}-partition-2")
    producer.send("new")
    value = consumer.receive(timeout_ms=75_000).value  # some clients poll once per minute
    s.equal(value, "new", "from the new partition")
    return value


@theme
def several(s: Session) -> Any:
    """Several topics as one consumer; acks reach each of them."""
    client = s.client()
    topics = [s.topic(name) for name in ("a", "b", "c")]
    for topic in topics:
        client.producer(topic).send_all([f"{_short(topic)[0]}{n}" for n in range(5)])
    messages = client.consumer(topics).take(15, ack=True)
    for topic in topics:
        s.wait_backlog(topic, 0)
    values = sorted(message.value for message in messages)
    s.equal(values, [f"{name}{n}" for name in "abc" for n in range(5)], "received values")
    return [values, sorted({_short(message.raw["topic"]) for message in messages})]


@theme
def pattern(s: Session) -> Any:
    """A pattern of topic names: existing topics, and one created later."""
    client = s.client()
    for name in ("red", "green", "other"):
        client.producer(s.topic(name)).send(name)
    regex = f"persistent://{s.place.namespace}/{s.tag}-(red|green|blue)-.*"
    consumer = client.consumer(None, pattern=regex, discovery_ms=1000)
    seen = sorted(consumer.values(2, ack=True))
    s.equal(seen, ["green", "red"], "existing topics")
    client.producer(s.topic("blue")).send("blue")
    late = consumer.values(1, ack=True, timeout_ms=75_000)
    s.equal(late, ["blue"], "the later topic")
    return [seen, late, consumer.rest()]


@theme
def pattern_shared(s: Session) -> Any:
    """A pattern over partitioned topics, Shared."""
    client = s.client()
    for name in ("x", "y"):
        client.producer(s.topic(name, partitions=2)).send_all(numbers(10), lambda value: {"key": value})
    regex = f"persistent://{s.place.namespace}/{s.tag}-.*"
    values = sorted(client.consumer(None, pattern=regex, type="shared").values(20, ack=True), key=int)
    s.equal(values, sorted(numbers(10) * 2, key=int), "received values")
    return values


@theme
def consumer_first(s: Session) -> Any:
    """A consumer on a topic that does not exist yet."""
    client, topic = s.client(), s.topic()
    consumer = client.consumer(topic)
    client.producer(topic).send("first")
    value = consumer.receive().value
    s.equal(value, "first", "received values")
    return value


@theme
def not_found(s: Session) -> Any:
    """A missing topic without automatic creation: consumer, reader, producer."""
    client, topic = s.client(operation_timeout_ms=5000), s.topic(namespace=s.place.strict_namespace)
    kinds = ("TopicNotFound", "Metadata", "Timeout", "Other", "NotAllowed")
    return [
        s.refused(lambda: client.consumer(topic), *kinds),
        s.refused(lambda: client.reader(topic), *kinds),
        s.refused(lambda: client.producer(topic), *kinds),
    ]


@theme
def no_namespace(s: Session) -> Any:
    """A missing namespace."""
    client = s.client(operation_timeout_ms=5000)
    topic = s.topic(namespace=f"public/compat-nowhere-{s.tag}")
    kinds = ("TopicNotFound", "Metadata", "Timeout", "Other", "NotAllowed", "Authorization", "Connect")
    return [s.refused(lambda: client.consumer(topic), *kinds), s.refused(lambda: client.producer(topic), *kinds)]


@theme
def made_later(s: Session) -> Any:
    """A topic that is created after a consumer failed to subscribe."""
    client, topic = s.client(operation_timeout_ms=5000), s.topic(namespace=s.place.strict_namespace)
    s.refused(lambda: client.consumer(topic), "TopicNotFound", "Metadata", "Timeout", "Other")
    s.admin.create_topic(topic)
    consumer = client.consumer(topic)
    client.producer(topic).send("a")
    value = consumer.receive().value
    s.equal(value, "a", "received values")
    return value


@theme
def terminated(s: Session) -> Any:
    """A terminated topic: all messages up to its end, and producers are refused."""
    client, topic = s.client(), s.topic()
    producer = client.producer(topic)
    producer.send_all(numbers(5))
    producer.close()
    s.admin.terminate(topic)
    values = client.consumer(topic).values(5, ack=True)
    s.equal(values, numbers(5), "received values")
    kind = s.refused(lambda: client.producer(topic), "TopicTerminated", "Other", "Timeout")  # an older client retries
    return [values, kind]


@theme
def end_of_topic(s: Session) -> Any:
    """A consumer is notified at the end of a terminated topic."""
    client, topic = s.client(), s.topic()
    producer = client.producer(topic)
    producer.send_all(numbers(3))
    consumer = client.consumer(topic)
    consumer.values(3, ack=True)
    before = consumer.call("send_end_of_topic")["reached"]
    s.admin.terminate(topic)
    s.until(lambda: consumer.call("send_end_of_topic")["reached"], "the end is reached")
    late = client.consumer(topic, "late")
    late.values(3, ack=True)
    s.until(lambda: late.call("send_end_of_topic")["reached"], "the end is reached by a later consumer")
    s.equal(before, False, "before")
    return [before, True]


@theme
def terminated_reader(s: Session) -> Any:
    """A reader of a terminated topic: hasMessageAvailable becomes false."""
    client, topic = s.client(), s.topic()
    client.producer(topic).send_all(numbers(5))
    s.admin.terminate(topic)
    reader = client.reader(topic)
    values = []
    while reader.call("has_next")["has"]:
        values += reader.values(1)
    s.equal(values, numbers(5), "values of the reader")
    return values


@theme
def deleted(s: Session) -> Any:
    """A topic deleted by force under a consumer: it is created again, empty, and consumed."""
    client, topic = s.client(), s.topic()
    producer = client.producer(topic)
    producer.send_all(numbers(5))
    consumer = client.consumer(topic)
    before = consumer.values(5, ack=True)
    producer.close()
    s.admin.delete_topic(topic)
    s.until(lambda: topic in s.admin.topics(s.place.namespace), "the consumer has created it again")
    s.until(lambda: "sub" in s.subscriptions(topic), "the consumer is back")
    client.producer(topic).send("new")
    after = consumer.values(1)
    s.equal([before, after], [numbers(5), ["new"]], "before and after")
    return [before, after]


@theme
def deleted_subscription(s: Session) -> Any:
    """A subscription deleted by force under its consumer: the consumer reconnects with a new one."""
    client, topic = s.client(), s.topic()
    producer = client.producer(topic)
    producer.send_all(numbers(5))
    consumer = client.consumer(topic)
    before = consumer.values(5, ack=True)
    s.wait_backlog(topic, 0)
    s.view.delete(topic, "sub")
    s.until(lambda: "sub" in s.subscriptions(topic), "the consumer is back")
    producer.send("new")
    after = consumer.values(6)
    s.check("new" in after, f"new messages arrive: {after}")
    return [before, sorted(after)]


@theme
def non_persistent(s: Session) -> Any:
    """A non-persistent topic."""
    client, topic = s.client(), s.topic(domain="non-persistent")
    consumer = client.consumer(topic, type="shared")
    client.producer(topic).send_all(numbers(10))
    values = sorted(consumer.values(10, ack=True), key=int)
    s.equal(values, numbers(10), "received values")
    return values


@theme
def tail_latency(s: Session) -> Any:
    """Single messages at the tail arrive one by one, without waiting for the next."""
    client, topic = s.client(), s.topic()
    producer = client.producer(topic)
    consumer = client.consumer(topic)
    values = []
    for number in numbers(10):
        producer.send(number)
        begin = time.monotonic()
        values += consumer.values(1)
        s.check(time.monotonic() - begin < 10, "within ten seconds, on a loaded machine")
    s.equal(values, numbers(10), "received values")
    return values


@theme
def idle_then_more(s: Session) -> Any:
    """Messages after a pause longer than a ledger poll."""
    client, topic = s.client(), s.topic()
    producer = client.producer(topic)
    consumer = client.consumer(topic)
    producer.send("a")
    values = consumer.values(1)
    nothing = consumer.rest(timeout_ms=4 * NOTHING_MS)
    producer.send("b")
    values += consumer.values(1)
    s.equal([values, nothing], [["a", "b"], []], "before, between, after")
    return values
