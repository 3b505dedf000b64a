"""The subscription types and their dispatch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from longtests.compat.handles import COMES_MS
from longtests.compat.registry import Theme
from longtests.compat.scenarios.common import numbers, together

if TYPE_CHECKING:
    from longtests.compat.handles import Consumer
    from longtests.compat.session import Session

theme = Theme("Subscription types")

_HALVES = [[[0, 32767]], [[32768, 65535]]]


def _everything(consumers: list[Consumer], count: int) -> list[list[str]]:
    """Return the values of each consumer, `count` in all."""
    got: list[list[str]] = [[] for _ in consumers]
    idle = 0
    while sum(map(len, got)) < count and idle * 500 < COMES_MS:
        idle += 1
        for mine, consumer in zip(got, consumers, strict=True):
            new = consumer.values(count, ack=True, timeout_ms=250)
            mine.extend(new)
            idle = 0 if new else idle
    return got


@theme
def exclusive(s: Session) -> Any:
    """Exclusive: a backlog and new messages, in order."""
    client, topic = s.client(), s.topic()
    producer = client.producer(topic)
    producer.send_all(numbers(150))
    consumer = client.consumer(topic)
    values = consumer.values(150, ack=True)
    producer.send_all(numbers(20, 150))
    values += consumer.values(20, ack=True)
    s.equal(values, numbers(170), "received values")
    s.wait_backlog(topic, 0)
    return values


@theme
def exclusive_busy(s: Session) -> Any:
    """Exclusive: a second consumer is refused until the first closes."""
    client, topic = s.client(), s.topic()
    first = client.consumer(topic)
    kind = s.refused(lambda: client.consumer(topic), "ConsumerBusy")
    first.close()
    client.producer(topic).send("a")
    value = client.consumer(topic).receive().value
    s.equal(value, "a", "received by the next consumer")
    return [kind, value]


@theme
def wrong_type(s: Session) -> Any:
    """A consumer of another type than the connected ones is refused."""
    client, topic = s.client(), s.topic()
    client.consumer(topic, type="shared")
    return [
        s.refused(lambda kind=kind: client.consumer(topic, type=kind), "ConsumerBusy")
        for kind in ("exclusive", "failover", "key_shared")
    ]


@theme
def initial_latest(s: Session) -> Any:
    """A new subscription at the latest position gets new messages only."""
    client, topic = s.client(), s.topic()
    producer = client.producer(topic)
    producer.send_all(numbers(5))
    consumer = client.consumer(topic, initial="latest")
    producer.send("after")
    value = consumer.receive().value
    s.equal(value, "after", "the first message")
    return [value, consumer.rest()]


@theme
def goes_on(s: Session) -> Any:
    """A consumer that reconnects continues after the last acknowledgement."""
    client, topic = s.client(), s.topic()
    client.producer(topic).send_all(numbers(10))
    consumer = client.consumer(topic)
    for message in consumer.take(7)[:4]:
        consumer.ack(message)
    consumer.close()
    s.wait_backlog(topic, 6)
    values = client.consumer(topic).values(6)
    s.equal(values, numbers(6, 4), "after the reconnect")
    return values


@theme
def failover_switches(s: Session) -> Any:
    """Failover: the second consumer takes over when the active one closes."""
    client, topic = s.client(), s.topic(partitions=1)  # the first consumer by name is the active one of a partition
    producer = client.producer(topic)
    first = client.consumer(topic, type="failover", name="a")
    second = client.consumer(topic, type="failover", name="b")
    producer.send_all(numbers(10))
    mine = first.values(10, ack=True)
    s.equal(mine, numbers(10), "received by the active one")
    idle = second.rest()
    s.equal(idle, [], "received by the other")
    s.wait_backlog(f"{topic}-partition-0", 0)
    first.close()
    producer.send_all(numbers(10, 10))
    theirs = second.values(10, ack=True)
    s.equal(theirs, numbers(10, 10), "then received by the second")
    return [mine, idle, theirs]


@theme
def failover_events(s: Session) -> Any:
    """Failover: consumers are notified when they become active or inactive."""
    client, topic = s.client(), s.topic(partitions=1)
    client.producer(topic).close()

    def last(consumer: Consumer) -> str:
        return ([event[0] for event in consumer.call("events")["events"]] or [""])[-1]

    second = client.consumer(topic, type="failover", name="b", events=True)
    s.until(lambda: last(second) == "active", "b is active while it is alone")
    first = client.consumer(topic, type="failover", name="a", events=True)
    s.until(lambda: [last(first), last(second)] == ["active", "inactive"], "a is active, b is inactive")
    first.close()
    s.until(lambda: last(second) == "active", "b is active again")
    return "as it must be"


@theme
def shared(s: Session) -> Any:
    """Shared: messages are distributed, each to one consumer."""
    client, topic = s.client(), s.topic()
    consumers = [client.consumer(topic, type="shared", queue=10) for _ in range(3)]
    client.producer(topic).send_all(numbers(120))
    got = _everything(consumers, 120)
    s.equal(sorted(together(got), key=int), numbers(120), "all together")
    s.check(all(got), "each gets some")
    s.wait_backlog(topic, 0)
    return sorted(together(got), key=int)


@theme
def shared_across_clients(s: Session) -> Any:
    """Shared: consumers on several connections, one of which closes."""
    topic = s.topic()
    clients = [s.client() for _ in range(3)]
    consumers = [client.consumer(topic, type="shared", queue=5) for client in clients]
    producer = clients[0].producer(topic)
    producer.send_all(numbers(30))
    taken = consumers[2].values(1)
    s.check(len(taken) == 1, "the third gets one")
    clients[2].close()
    got: set[str] = set()
    s.until(
        lambda: got.update(v for c in consumers[:2] for v in c.rest(ack=True, timeout_ms=300)) or len(got) >= 30, "all"
    )
    s.equal(sorted(got, key=int), numbers(30), "received by the others and the third")
    return sorted(got, key=int)


@theme
def priority(s: Session) -> Any:
    """Shared: lower priority levels are served only when the higher ones have no permits."""
    client, topic = s.client(), s.topic()
    producer = client.producer(topic)
    high = client.consumer(topic, type="shared", priority=0, queue=100, name="high")
    low = client.consumer(topic, type="shared", priority=1, queue=100, name="low")
    producer.send_all(numbers(20))
    got = [high.values(20), low.rest()]
    s.equal(got, [numbers(20), []], "high and low")
    return got


@theme
def key_shared(s: Session) -> Any:
    """Key_Shared, auto split: each key goes to one consumer, in order."""
    client, topic = s.client(), s.topic()
    consumers = [client.consumer(topic, type="key_shared") for _ in range(3)]
    values = [f"{number % 12}:{number}" for number in range(120)]
    client.producer(topic).send_all(values, lambda value: {"key": value.split(":")[0]})
    got = _everything(consumers, 120)
    by_key = [
        {key: [v for v in mine if v.startswith(f"{key}:")] for key in {v.split(":")[0] for v in mine}} for mine in got
    ]
    s.equal(sorted(together(got), key=values.index), values, "all together")
    keys = [key for mine in by_key for key in mine]
    s.equal(len(keys), len(set(keys)), "consumers of a key")
    s.check(
        all(each == [v for v in values if v.startswith(f"{key}:")] for mine in by_key for key, each in mine.items()),
        "order",
    )
    return sorted(keys, key=int)


@theme
def key_shared_sticky(s: Session) -> Any:
    """Key_Shared, sticky ranges: each consumer gets the keys of its ranges."""
    client, topic = s.client(), s.topic()
    halves = [
        client.consumer(topic, type="key_shared", key_shared={"mode": "sticky", "ranges": ranges}) for ranges in _HALVES
    ]
    values = [f"{number % 16}:{number}" for number in range(64)]
    client.producer(topic).send_all(values, lambda value: {"key": value.split(":")[0]})
    got = _everything(halves, 64)
    s.equal(sorted(together(got), key=values.index), values, "all together")
    s.check(all(got), "each half gets some")
    return got


@theme
def key_shared_overlap(s: Session) -> Any:
    """Key_Shared, sticky ranges: overlapping ranges are refused."""
    client, topic = s.client(), s.topic()
    client.consumer(topic, type="key_shared", key_shared={"mode": "sticky", "ranges": [[0, 40000]]})
    return s.refused(
        lambda: client.consumer(topic, type="key_shared", key_shared={"mode": "sticky", "ranges": [[30000, 65535]]}),
        "ConsumerBusy",
        "NotAllowed",
        "Other",
        "InvalidConfiguration",
    )


@theme
def key_shared_out_of_order(s: Session) -> Any:
    """Key_Shared with out-of-order delivery allowed: nothing is lost when a consumer joins."""
    client, topic = s.client(), s.topic()
    policy = {"mode": "auto", "allow_out_of_order": True}
    consumers = [client.consumer(topic, type="key_shared", key_shared=policy, queue=5)]
    producer = client.producer(topic)
    values = [f"{number % 12}:{number}" for number in range(60)]
    producer.send_all(values, lambda value: {"key": value.split(":")[0]})
    consumers.append(client.consumer(topic, type="key_shared", key_shared=policy, queue=5))
    got = _everything(consumers, 60)
    s.equal(sorted(together(got), key=values.index), values, "all together")
    return sorted(together(got), key=values.index)


@theme
def key_shared_ordering_key(s: Session) -> Any:
    """Key_Shared: the ordering key has precedence over the key."""
    client, topic = s.client(), s.topic()
    consumers = [client.consumer(topic, type="key_shared") for _ in range(2)]
    values = numbers(40)
    client.producer(topic).send_all(values, lambda value: {"key": value, "ordering_key": "b25l"})
    got = _everything(consumers, 40)
    one = [mine for mine in got if mine]
    s.equal(one, [values], "one consumer has all, in order")
    return one


@theme
def key_shared_leaves(s: Session) -> Any:
    """Key_Shared: the keys of a closed consumer go to the others, in order."""
    client, topic = s.client(), s.topic()
    first = client.consumer(topic, type="key_shared")
    producer = client.producer(topic)
    values = [f"{number % 5}:{number}" for number in range(40)]
    producer.send_all(values, lambda value: {"key": value.split(":")[0]})
    had = first.take(40)
    for message in had[:10]:
        first.ack(message)
    s.wait_backlog(topic, 30)
    second = client.consumer(topic, type="key_shared")
    first.close()
    got = second.values(30, ack=True)
    for key in range(5):
        mine = [v for v in values[10:] if v.startswith(f"{key}:")]
        s.equal([v for v in got if v.startswith(f"{key}:")], mine, f"key {key}")
    return sorted(got, key=values.index)


@theme
def same_name(s: Session) -> Any:
    """Shared: two consumers of one name on two connections; each message goes to one of them."""
    topic = s.topic()
    consumers = [s.client().consumer(topic, type="shared", name="consume") for _ in range(2)]
    s.client().producer(topic).send_all(numbers(40))
    got = _everything(consumers, 40)
    s.equal(sorted(together(got), key=int), numbers(40), "all together")
    s.wait_backlog(topic, 0)
    names = [one["consumerName"] for one in s.stats(topic)["consumers"]]
    s.equal(names, ["consume"] * 2, "names at the owner")
    return names


@theme
def made_by_admin(s: Session) -> Any:
    """A subscription that an administrator created at the earliest message begins there, whatever the consumer asks for."""
    client, topic = s.client(), s.topic()
    client.producer(topic).send_all(numbers(5))
    s.admin.create_subscription(topic, "sub")
    values = client.consumer(topic, initial="latest").rest(5, ack=True)
    s.equal(values, numbers(5), "received values")
    s.wait_backlog(topic, 0)
    return values


@theme
def many_subscriptions(s: Session) -> Any:
    """Subscriptions of one topic are independent."""
    client, topic = s.client(), s.topic()
    producer = client.producer(topic)
    consumers = [
        client.consumer(topic, f"sub-{kind}", type=kind) for kind in ("exclusive", "failover", "shared", "key_shared")
    ]
    producer.send_all(numbers(10))
    got = [consumer.values(10, ack=True) for consumer in consumers]
    s.equal(got, [numbers(10)] * 4, "received by each")
    return got


@theme
def non_durable(s: Session) -> Any:
    """A non-durable subscription starts at an id and leaves no cursor."""
    client, topic = s.client(), s.topic()
    ids = client.producer(topic).send_all(numbers(10))
    consumer = client.consumer(topic, "passing", durable=False, start=ids[3], start_inclusive=True)
    values = consumer.values(7, ack=True)
    s.equal(values, numbers(7, 3), "from the fourth")
    consumer.close()
    s.until(lambda: s.subscriptions(topic) == [], "no subscription is left")
    return values


@theme
def unsubscribe(s: Session) -> Any:
    """Unsubscribe deletes the subscription; a new one of that name starts afresh."""
    client, topic = s.client(), s.topic()
    client.producer(topic).send_all(numbers(3))
    consumer = client.consumer(topic)
    consumer.values(3, ack=True)
    consumer.call("unsubscribe")
    s.equal(s.subscriptions(topic), [], "subscriptions")
    values = client.consumer(topic).values(3)
    s.equal(values, numbers(3), "from the beginning")
    return values


@theme
def unsubscribe_busy(s: Session) -> Any:
    """Unsubscribe with other consumers connected is refused."""
    client, topic = s.client(), s.topic()
    client.producer(topic).send("a")
    first, second = (client.consumer(topic, type="shared") for _ in range(2))
    s.until(lambda: len(s.stats(topic)["consumers"]) == 2, "both are connected")
    kind = s.refused(lambda: first.call("unsubscribe"), "Metadata", "ConsumerBusy", "Other", "NotAllowed")
    s.equal(s.subscriptions(topic), ["sub"], "subscriptions")
    second.close()
    return kind


@theme
def unsubscribe_force(s: Session) -> Any:
    """Forced unsubscribe: the subscription is deleted with other consumers connected."""
    client, topic = s.client(), s.topic()
    client.producer(topic).close()
    first = client.consumer(topic, type="shared")
    other = s.client()
    other.consumer(topic, type="shared")
    first.call("unsubscribe", force=True)
    other.close()
    return "gone"


@theme
def subscription_properties(s: Session) -> Any:
    """Properties of a subscription reach the owner."""
    client, topic = s.client(), s.topic()
    client.consumer(topic, type="shared", name="it", subscription_properties={"b": "2"})
    stats = s.stats(topic)
    seen = [stats["subscriptionProperties"], stats["consumers"][0]["consumerName"]]
    s.equal(seen, [{"b": "2"}, "it"], "at the owner")
    return seen


@theme
def owner_stats(s: Session) -> Any:
    """The owner's topic stats list subscription, type, backlog and consumers with their names."""
    client, topic = s.client(), s.topic()
    client.producer(topic).send_all(numbers(5))
    consumer = client.consumer(topic, type="shared", name="it")
    for message in consumer.take(5)[:2]:
        consumer.ack(message)
    s.wait_backlog(topic, 3)
    stats = s.stats(topic)
    one = stats["consumers"][0]
    seen = [stats["type"], stats["msgBacklog"], len(stats["consumers"]), one["consumerName"]]
    s.equal(seen, ["Shared", 3, 1, "it"], "at the owner")
    return seen


@theme
def consumer_metadata(s: Session) -> Any:
    """Metadata (properties) of a consumer at the owner."""
    client, topic = s.client(), s.topic()
    client.consumer(topic, properties={"a": "1"})
    metadata = dict(s.stats(topic)["consumers"][0]["metadata"])
    s.equal(metadata.pop("a"), "1", "the client's own")
    return sorted(metadata)


@theme
def owner_dispatch_stats(s: Session) -> Any:
    """The owner's topic stats count deliveries: messages out, unacknowledged messages, permits."""
    client, topic = s.client(), s.topic()
    client.producer(topic).send_all(numbers(5))
    consumer = client.consumer(topic, type="shared", queue=100)
    consumer.take(5)

    def seen() -> list[int]:
        one = s.stats(topic)["consumers"][0]
        return [one["msgOutCounter"], one["unackedMessages"]]

    if s.target.name == "owner":
        s.until(lambda: seen() == [5, 5], "5 messages out, 5 not acknowledged")
    return seen()
