"""Moves of topics, restarts and deaths of servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from longtests.compat.registry import Theme
from longtests.compat.scenarios.common import numbers

if TYPE_CHECKING:
    from longtests.compat.handles import Consumer
    from longtests.compat.session import Session

theme = Theme("Moves and restarts")


_GATHER_MS = 100
"""Delay of grouped acks, which wait for a connection; Java's single acks fail without one."""


def _at_least_once(
    s: Session, consumers: list[Consumer], wanted: set[str], topic: str, subscription: str = "sub"
) -> list[str]:
    """Receive and ack until all wanted values have arrived and nothing is left; late redeliveries are allowed."""
    got: set[str] = set()

    def more() -> bool:
        for consumer in consumers:
            got.update(consumer.rest(ack=True, timeout_ms=300))
        return got >= wanted

    s.until(more, "everything", deadline_s=60)
    s.until(lambda: more() and s.backlog(topic, subscription) == 0, "backlog 0", deadline_s=60)
    return sorted(got, key=int)


@theme
def unload_exclusive(s: Session) -> Any:
    """The topic is unloaded at its owner while it is consumed: producer and consumer continue."""
    client, topic = s.client(), s.topic()
    producer = client.producer(topic)
    consumer = client.consumer(topic)
    producer.send_all(numbers(20))
    first = consumer.values(20, ack=True)
    s.wait_backlog(topic, 0)
    s.admin.unload(topic)
    producer.send_all(numbers(20, 20))
    second = consumer.values(20, ack=True)
    s.equal([first, second], [numbers(20), numbers(20, 20)], "before and after")
    s.wait_backlog(topic, 0)
    return [first, second]


@theme
def unload_unacked(s: Session) -> Any:
    """Unloaded with unacknowledged messages: they can still be acknowledged, or are redelivered."""
    client, topic = s.client(), s.topic()
    client.producer(topic).send_all(numbers(20))
    consumer = client.consumer(topic, type="shared")
    for message in consumer.take(20)[:10]:
        consumer.ack(message)
    s.wait_backlog(topic, 10)
    s.admin.unload(topic)
    s.until(lambda: s.stats(topic)["consumers"], "the consumer is back")
    s.wait_backlog(topic, 10)
    consumer.close()
    left = _at_least_once(s, [client.consumer(topic, type="shared")], set(numbers(10, 10)), topic)
    s.check(set(left) >= set(numbers(10, 10)), "remaining values")
    return [v for v in left if int(v) >= 10]


@theme
def unload_shared(s: Session) -> Any:
    """Unloaded under Shared consumers: nothing is lost."""
    client, topic = s.client(), s.topic()
    producer = client.producer(topic)
    consumers = [client.consumer(topic, type="shared", queue=10, ack_group_ms=_GATHER_MS) for _ in range(2)]
    producer.send_all(numbers(60))
    got = set(consumers[0].values(10, ack=True))
    s.admin.unload(topic)
    producer.send_all(numbers(20, 60))
    got |= set(_at_least_once(s, consumers, set(numbers(80)) - got, topic))
    s.equal(sorted(got, key=int), numbers(80), "all together")
    return len(got)


@theme
def unload_key_shared(s: Session) -> Any:
    """Unloaded under Key_Shared consumers: nothing is lost."""
    client, topic = s.client(), s.topic()
    producer = client.producer(topic)
    consumers = [client.consumer(topic, type="key_shared", ack_group_ms=_GATHER_MS) for _ in range(2)]
    producer.send_all(numbers(40), lambda value: {"key": f"k{int(value) % 5}"})
    s.admin.unload(topic)
    producer.send_all(numbers(20, 40), lambda value: {"key": f"k{int(value) % 5}"})
    got = _at_least_once(s, consumers, set(numbers(60)), topic)
    s.equal(got, numbers(60), "all together")
    return len(got)


@theme
def unload_reader(s: Session) -> Any:
    """Unloaded under a reader: it continues at its position."""
    client, topic = s.client(), s.topic()
    producer = client.producer(topic)
    reader = client.reader(topic)
    producer.send_all(numbers(20))
    first = reader.values(20)
    s.admin.unload(topic)
    producer.send_all(numbers(20, 20))
    second = reader.values(20)
    s.equal([first, second], [numbers(20), numbers(20, 20)], "before and after")
    return [first, second]


@theme
def unload_seek(s: Session) -> Any:
    """Unloaded, then a seek to an earlier id."""
    client, topic = s.client(), s.topic()
    ids = client.producer(topic).send_all(numbers(20))
    consumer = client.consumer(topic)
    consumer.values(20, ack=True)
    s.wait_backlog(topic, 0)
    s.admin.unload(topic)
    s.until(lambda: s.stats(topic)["consumers"], "the consumer is back")
    consumer.seek(ids[9])
    values = consumer.rest(ack=True)
    s.equal(values, numbers(10, 10), "after the seek")
    return values


@theme.own_pool
def restart_exclusive(s: Session) -> Any:
    """The server of a topic dies (pool: its broker is killed): consumers continue, nothing is lost."""
    client, topic = s.client(), s.topic()
    producer = client.producer(topic)
    consumer = client.consumer(topic, ack_group_ms=_GATHER_MS)
    producer.send_all(numbers(30))
    got = set(consumer.values(10, ack=True))
    s.target.restart(topic)
    producer.send_all(numbers(30, 30))
    got |= set(_at_least_once(s, [consumer], set(numbers(60)) - got, topic))
    s.equal(sorted(got, key=int), numbers(60), "all together")
    return len(got)


@theme.own_pool
def restart_shared(s: Session) -> Any:
    """The server of a topic dies: Shared and Key_Shared consumers continue."""
    client, topic = s.client(), s.topic()
    producer = client.producer(topic)
    shared = [client.consumer(topic, "shared", type="shared", queue=10, ack_group_ms=_GATHER_MS) for _ in range(2)]
    keyed = [client.consumer(topic, "keyed", type="key_shared", queue=10, ack_group_ms=_GATHER_MS) for _ in range(2)]
    producer.send_all(numbers(40), lambda value: {"key": f"k{int(value) % 5}"})
    got = set(shared[0].values(5, ack=True))
    s.target.restart(topic)
    producer.send_all(numbers(20, 40), lambda value: {"key": f"k{int(value) % 5}"})
    got |= set(_at_least_once(s, shared, set(numbers(60)) - got, topic, "shared"))
    by_key = _at_least_once(s, keyed, set(numbers(60)), topic, "keyed")
    s.equal([sorted(got, key=int), by_key], [numbers(60)] * 2, "all together, for each subscription")
    return [len(got), len(by_key)]


@theme.own_pool
def restart_delayed(s: Session) -> Any:
    """The server of a topic dies while messages are delayed: they are delivered, not before their time."""
    client, topic = s.client(), s.topic()
    producer = client.producer(topic)
    consumer = client.consumer(topic, type="shared", ack_group_ms=_GATHER_MS)
    producer.send("1", deliver_after_ms=15_000)
    producer.send("0")
    first = consumer.values(1, ack=True)
    s.wait_backlog(topic, 1)
    s.target.restart(topic)
    early = consumer.rest(ack=True)
    later = consumer.values(1, ack=True)
    s.equal([first, early, later], [["0"], [], ["1"]], "at once, soon, later")
    return [first, early, later]
