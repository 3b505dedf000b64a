"""One subscription with consumers at two brokers of the pool, which both dispatch it (`dispatch: Split`)."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from longtests.compat.handles import COMES_MS
from longtests.compat.registry import Theme
from longtests.compat.scenarios.common import numbers, together
from longtests.compat.session import CheckError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from longtests.compat.handles import Consumer, Message
    from longtests.compat.session import Session

theme = Theme("Consumers at two brokers")

_SEED: Final = 52
_BATCH: Final = 10
_OVER: Final = 150
_OVER_IN_BATCHES: Final = 1_000
"""An owner compares its limits after each read of up to 100 entries. A pool exceeds them in batches, and when consumers come."""
_MAX_REDELIVER: Final = 3
_ACK_TIMEOUT_MS: Final = 10_000
_LATE_S: Final = 3.0
_EARLY_S: Final = 1.0
"""An owner's clock of delayed messages ticks once a second."""
_QUIET_MS: Final = 3_000
"""Time without a message after which a limit holds the others back: leases take a second to move."""
_KEYS: Final = 24
_HALVES: Final = ([[0, 32767]], [[32768, 65535]])
_TRIES: Final = 12
_SPREAD_S: Final = 4.0


def _both(s: Session, topic: str, kind: str, *each: dict[str, Any], **options: Any) -> list[Consumer]:
    """Return consumers, by default two, after both brokers dispatch the subscription. The first two are at different brokers.

    A lookup names any broker of the pool, so the second consumer comes again until it is at another one.
    """
    each = each or ({}, {})

    def consumer(number: int) -> Consumer:
        return s.client().consumer(topic, type=kind, name=f"c{number}", **{**options, **each[number]})

    first, second = consumer(0), consumer(1)
    for _ in range(_TRIES):
        try:
            s.until(lambda: s.target.spread(topic, "sub"), "both brokers dispatch the subscription", _SPREAD_S)
            break
        except CheckError:
            second.close()
            second = consumer(1)
    else:
        s.check(s.target.spread(topic, "sub"), "both brokers dispatch the subscription")
    return [first, second, *(consumer(number) for number in range(2, len(each)))]


def _settled(consumers: Iterable[Consumer]) -> list[list[Message]]:
    """Return the messages of each consumer, until none gets any more."""
    consumers = list(consumers)
    got: list[list[Message]] = [[] for _ in consumers]
    while True:
        before = sum(map(len, got))
        for mine, consumer in zip(got, consumers, strict=True):
            mine.extend(consumer.take(100_000, timeout_ms=_QUIET_MS // len(consumers)))
        if sum(map(len, got)) == before:
            return got


def _values(got: list[list[Message]]) -> list[str]:
    return sorted((message.value for mine in got for message in mine), key=int)


class _Script:
    """What consumers do with each message of a topic, by its number and redelivery count, wherever it comes.

    Most are acked at once. Some are negatively acked up to a number of times, some until they are dead letters, some are acked
    only after the ack timeout, some are delayed. Batches are acked, or acked in part and come again completely.

    Args:
        keys: whether messages have keys. Each key is acked, negatively acked or delayed as a whole.
    """

    def __init__(self, *, keys: bool) -> None:
        dice = random.Random(_SEED)
        self.singles = [f"s{i}" for i in range(240)]
        self.batches = [[f"b{i}.{j}" for j in range(_BATCH)] for i in range(24)]
        self.keys = keys
        self.nacks: dict[str, int] = {}
        self.delays: dict[str, int] = {}
        self.forgets: set[str] = set()
        self.parts: set[str] = set()
        for one in self.singles:
            match dice.randrange(10):
                case 0 | 1:
                    self.nacks[one] = dice.randint(1, _MAX_REDELIVER)
                case 2:
                    self.nacks[one] = _MAX_REDELIVER + 1  # a dead letter
                case 3:
                    self.forgets.add(one)
                case 4:
                    self.delays[one] = dice.choice((2_000, 3_500, 5_000))
        for batch in self.batches:
            if dice.randrange(3) == 0:
                self.parts.add(batch[0].partition(".")[0])

    @property
    def dead(self) -> list[str]:
        """The dead letters."""
        return sorted(one for one, times in self.nacks.items() if times > _MAX_REDELIVER)

    def deliveries(self, value: str) -> int:
        """Return how many times a message comes."""
        if value in self.nacks:
            return min(self.nacks[value], _MAX_REDELIVER) + 1
        return 2 if value in self.forgets or value.partition(".")[0] in self.parts else 1

    @property
    def wanted(self) -> list[list[Any]]:
        """Each delivery: value and redelivery count."""
        values = [*self.singles, *together(self.batches)]
        return sorted([value, count] for value in values for count in range(self.deliveries(value)))

    @property
    def _turns(self) -> Iterable[tuple[list[str], list[str]]]:
        return ((self.singles[at * 10 : at * 10 + 10], batch) for at, batch in enumerate(self.batches))

    @property
    def by_key(self) -> dict[str, list[str]]:
        """The messages without delay of each key, in the order of their publication."""
        found: dict[str, list[str]] = defaultdict(list)
        for value in (value for singles, batch in self._turns for value in (*singles, *batch)):
            if value not in self.delays:
                found[self.key(value)].append(value)
        return found

    def key(self, value: str) -> str:
        """Return the key of a message: a batch has one."""
        name = value.partition(".")[0]
        return f"{'late' if value in self.delays else ''}{name[0]}{int(name[1:]) % _KEYS}"

    def fields(self, value: str) -> dict[str, Any]:
        """Return the fields of a message for its producer."""
        fields: dict[str, Any] = {"key": self.key(value)} if self.keys else {}
        return {**fields, "deliver_after_ms": self.delays[value]} if value in self.delays else fields

    def publish(self, s: Session, topic: str) -> float:
        """Publish all; return the time before the first one."""
        client = s.client()
        single = client.producer(topic)
        batching = {"max_messages": _BATCH, "max_delay_ms": 10_000, **({"key_based": True} if self.keys else {})}
        batched = client.producer(topic, batching=batching)
        begin = time.monotonic()
        for singles, batch in self._turns:
            single.send_all(singles, self.fields)
            batched.send_all(batch, self.fields)
        return begin

    def consume(self, s: Session, consumers: list[Consumer]) -> tuple[list[list[Any]], dict[str, float], list[str]]:
        """Consume until each message has come as often as it must, and a while more.

        Returns:
            The deliveries, the time of each delayed message, and the first deliveries in their order.
        """
        seen: list[list[Any]] = []
        times: dict[str, float] = {}
        order: list[str] = []
        parts: dict[tuple[int, str], list[Message]] = defaultdict(list)
        total, quiet_by = len(self.wanted), 0.0
        deadline = time.monotonic() + 3 * COMES_MS / 1000
        while time.monotonic() < deadline and not (quiet_by and time.monotonic() > quiet_by):
            for number, consumer in enumerate(consumers):
                for message in consumer.take(100, timeout_ms=50):
                    times.setdefault(message.value, time.monotonic())
                    if not message.redelivered:
                        order.append(message.value)
                    seen.append([message.value, message.redelivered])
                    batch = message.value.partition(".")[0] if "." in message.value else ""
                    if not batch:
                        self._handle(consumer, message)
                        continue
                    parts[number, batch].append(message)
                    if len(parts[number, batch]) == _BATCH:
                        self._handle_batch(consumer, batch, parts.pop((number, batch)))
            if len(seen) >= total and not quiet_by:
                quiet_by = time.monotonic() + _QUIET_MS / 1000
        return sorted(seen), times, order

    def _handle(self, consumer: Consumer, message: Message) -> None:
        if message.redelivered < self.nacks.get(message.value, 0):
            consumer.nack(message)
        elif message.value not in self.forgets or message.redelivered:
            consumer.ack(message)

    def _handle_batch(self, consumer: Consumer, batch: str, messages: list[Message]) -> None:
        again = batch in self.parts and not messages[0].redelivered
        for message in messages[: _BATCH // 2] if again else messages:
            consumer.ack(message)
        if again:
            consumer.nack(messages[-1])


def _difference(seen: list[list[Any]], wanted: list[list[Any]]) -> list[Any]:
    """Return the deliveries that are missing, and those that are too many."""
    missing = list(wanted)
    more = []
    for one in seen:
        if one in missing:
            missing.remove(one)
        else:
            more.append(one)
    return [missing, more]


def _run_script(s: Session, kind: str) -> Any:
    topic, dead = s.topic(), s.topic("dead")
    script = _Script(keys=kind == "key_shared")
    letters = s.client().consumer(dead, "letters")
    consumers = _both(
        s,
        topic,
        kind,
        *({},) * 4,
        nack_delay_ms=300,
        ack_timeout_ms=_ACK_TIMEOUT_MS,
        dead_letter={"max_redeliver": _MAX_REDELIVER, "topic": dead},
    )
    begin = script.publish(s, topic)
    seen, times, order = script.consume(s, consumers)
    s.equal(_difference(seen, script.wanted), [[], []], "missing deliveries, and those that are too many")
    left = sorted(letters.values(len(script.dead), ack=True) + letters.rest())
    s.equal(left, script.dead, "dead letters")
    s.wait_backlog(topic, 0)
    for value, delay in script.delays.items():
        late = times[value] - begin - delay / 1000
        s.check(-_EARLY_S <= late <= _LATE_S + (times["s239"] - begin), f"{value} came {late:.1f} s after its time")
    if script.keys:
        for key, values in script.by_key.items():
            first = [value for value in order if value not in script.delays and script.key(value) == key]
            s.equal(first, values, f"order of {key}")
    return [seen, left]


@theme
def shared_script(s: Session) -> Any:
    """Shared: redelivery counts, dead letters, delays, acks of parts of batches."""
    return _run_script(s, "shared")


@theme
def key_shared_script(s: Session) -> Any:
    """Key_Shared: redelivery counts, dead letters, delays, acks of parts of batches, order of each key."""
    return _run_script(s, "key_shared")


def _counts_after_close(s: Session, kind: str, closed: int) -> Any:
    topic = s.topic()
    consumers = _both(s, topic, kind, nack_delay_ms=200)
    s.client().producer(topic).send_all(numbers(40), lambda value: {"key": value})
    unacked: list[list[Message]] = [[], []]
    last = 0
    while sum(map(len, unacked)) < 40:
        last += 1
        s.check(last < 200, f"deliveries: {sum(map(len, unacked))} of 40 are left")
        for number, consumer in enumerate(consumers):
            for message in consumer.take(40, timeout_ms=200):
                if message.redelivered < int(message.value) % 3:
                    consumer.nack(message)
                else:
                    unacked[number].append(message)
    for message in unacked[1 - closed]:
        consumers[1 - closed].ack(message)
    s.wait_backlog(topic, len(unacked[closed]))
    consumers[closed].close()
    again = consumers[1 - closed].take(len(unacked[closed]))
    for message in again:
        consumers[1 - closed].ack(message)
    s.wait_backlog(topic, 0)
    wrong = [[m.value, m.redelivered] for m in again if m.redelivered != int(m.value) % 3]
    s.equal(len(again), len(unacked[closed]), "messages of the closed consumer")
    return wrong


@theme
def counts_after_first_closed(s: Session) -> Any:
    """Shared: the first consumer closes; its messages go to the other with their redelivery counts."""
    return _counts_after_close(s, "shared", 0)


@theme
def counts_after_second_closed(s: Session) -> Any:
    """Shared: the second consumer closes; its messages go to the other with their redelivery counts."""
    return _counts_after_close(s, "shared", 1)


@theme
def keys_after_second_closed(s: Session) -> Any:
    """Key_Shared: the second consumer closes; its messages go to the other with their redelivery counts."""
    return _counts_after_close(s, "key_shared", 1)


@theme
def sticky_ranges(s: Session) -> Any:
    """Key_Shared, sticky ranges: each consumer gets the keys of its ranges, and those of a closed one wait for the next."""
    topic = s.topic()
    each = [{"key_shared": {"mode": "sticky", "ranges": ranges}} for ranges in _HALVES]
    consumers = _both(s, topic, "key_shared", *each)
    producer = s.client().producer(topic)
    values = numbers(120)
    producer.send_all(values[:60], lambda value: {"key": str(int(value) % 60)})
    got = [_acked(mine, consumer) for mine, consumer in zip(_settled(consumers), consumers, strict=True)]
    s.wait_backlog(topic, 0)
    consumers[0].close()
    producer.send_all(values[60:], lambda value: {"key": str(int(value) % 60)})
    got += [consumers[1].values(len(got[1]), ack=True) + consumers[1].rest(ack=True)]
    third = s.client().consumer(topic, type="key_shared", name="c2", **each[0])
    got += [third.values(len(got[0]), ack=True)]
    s.equal(sorted(together(got), key=int), values, "all together")
    s.wait_backlog(topic, 0)
    return [sorted(mine, key=int) for mine in got]


@theme
def sticky_conflicts(s: Session) -> Any:
    """Key_Shared, sticky ranges: overlapping ranges, and a consumer with another policy, are refused."""
    topic = s.topic()
    _both(s, topic, "key_shared", *({"key_shared": {"mode": "sticky", "ranges": ranges}} for ranges in _HALVES))
    kinds = ("ConsumerBusy", "NotAllowed", "Other", "InvalidConfiguration")
    policies: list[dict[str, Any]] = [{"mode": "sticky", "ranges": [[10, 20]]}, {"mode": "auto"}]
    return [
        s.refused(lambda policy=policy: s.client().consumer(topic, type="key_shared", key_shared=policy), *kinds)
        for policy in policies
    ]


@theme
def out_of_order(s: Session) -> Any:
    """Key_Shared, out of order: later messages of keys that move come while earlier ones are unacked."""
    topic = s.topic()
    policy = {"key_shared": {"mode": "auto", "allow_out_of_order": True}}
    consumers = _both(s, topic, "key_shared", policy, policy)
    producer = s.client().producer(topic)
    values = numbers(120)
    producer.send_all(values[:60], lambda value: {"key": str(int(value) % 60)})
    held = _settled(consumers)
    s.equal(_values(held), values[:60], "the first message of each key")
    consumers += [s.client().consumer(topic, type="key_shared", name=f"c{number}", **policy) for number in (2, 3)]
    producer.send_all(values[60:], lambda value: {"key": str(int(value) % 60)})
    more = _settled(consumers)
    s.equal(_values(more), values[60:], "the second message of each key")
    s.check(any(more[2:]), "some keys have moved")
    for got in (held, more):
        for mine, consumer in zip(got, consumers, strict=False):
            _acked(mine, consumer)
    s.wait_backlog(topic, 0)
    return _values(more)


def _acked(messages: list[Message], consumer: Consumer) -> list[str]:
    for message in messages:
        consumer.ack(message)
    return [message.value for message in messages]


def _limit(s: Session, kind: str, batching: dict[str, Any] | None = None) -> Any:
    topic, limit = s.topic(), 300
    s.admin.create_topic(topic)
    s.admin.set_topic_policy(topic, "maxUnackedMessagesOnSubscription", limit)
    consumers = _both(s, topic, kind)
    producer = s.client().producer(topic, batching=batching)
    values = numbers(2000)
    producer.send_all(values, lambda value: {"key": str(int(value) // _BATCH)})
    held = _settled(consumers)
    stopped = sum(map(len, held))
    s.check(limit <= stopped <= limit + (_OVER if batching is None else _OVER_IN_BATCHES), f"stopped at {stopped}")
    for mine, consumer in zip(held, consumers, strict=True):
        for message in mine:
            consumer.ack(message)
    more: list[str] = []
    s.until(
        lambda: (
            more.extend(v for c in consumers for v in c.values(len(values), ack=True, timeout_ms=300))
            or len(more) + stopped >= len(values)
        ),
        "the others after the acks",
        90,
    )
    s.equal(sorted([*_values(held), *more], key=int), values, "all together")
    return "stopped"


@theme
def subscription_limit(s: Session) -> Any:
    """Shared: dispatch stops at the limit of unacked messages of the subscription, and continues after acks."""
    return _limit(s, "shared")


@theme
def subscription_limit_batches(s: Session) -> Any:
    """Shared: dispatch of batches of ten stops at the limit of unacked messages of the subscription, too."""
    return _limit(s, "shared", {"max_messages": _BATCH, "max_delay_ms": 10_000})


@theme
def subscription_limit_keys(s: Session) -> Any:
    """Key_Shared: dispatch stops at the limit of unacked messages of the subscription, and continues after acks."""
    return _limit(s, "key_shared")


@theme
def consumer_limit(s: Session) -> Any:
    """Shared: dispatch stops at the limit of unacked messages of each consumer."""
    topic = s.topic()
    s.admin.create_topic(topic)
    s.admin.set_max_unacked_on_consumer(topic, 50)
    consumers = _both(s, topic, "shared")
    s.client().producer(topic).send_all(numbers(300))
    return [len(mine) for mine in _settled(consumers)]


def _priority(s: Session, high_at: int) -> Any:
    topic = s.topic()
    consumers = _both(s, topic, "shared", {"priority": high_at}, {"priority": 1 - high_at}, queue=100)
    high, low = consumers[high_at], consumers[1 - high_at]
    producer = s.client().producer(topic)
    got = []
    for turn in range(5):
        producer.send_all(numbers(40, 40 * turn))
        got += high.values(40, ack=True, timeout_ms=_QUIET_MS)
    return [sorted(got, key=int), low.rest()]


@theme
def priority_first(s: Session) -> Any:
    """Shared: a consumer of a higher priority at the first broker gets all while it has permits."""
    return _priority(s, 0)


@theme
def priority_second(s: Session) -> Any:
    """Shared: a consumer of a higher priority at the second broker gets all while it has permits."""
    return _priority(s, 1)


@theme
def priority_without_permits(s: Session) -> Any:
    """Shared: a consumer of a lower priority gets the rest when the other has no permits."""
    topic = s.topic()
    high, low = _both(s, topic, "shared", {"priority": 0, "queue": 1}, {"priority": 1, "queue": 100})
    s.client().producer(topic).send_all(numbers(60))
    rest = low.rest(40)
    got = sorted([*rest, *high.rest()], key=int)
    s.equal(got, numbers(60), "all together")
    s.check(len(rest) >= 45, f"the rest: {len(rest)}")
    return got


@theme
def unacked_holes(s: Session) -> Any:
    """Shared: every second message stays unacked, and the others come."""
    topic, count = s.topic(), 4000
    consumers = _both(s, topic, "shared", queue=200)
    s.client().producer(topic).send_all(numbers(count))
    got: list[str] = []
    quiet_by = time.monotonic() + COMES_MS / 1000
    while len(got) < count and time.monotonic() < quiet_by:
        for consumer in consumers:
            for message in consumer.take(100, timeout_ms=100):
                got.append(message.value)
                quiet_by = time.monotonic() + COMES_MS / 1000
                if int(message.value) % 2:
                    consumer.ack(message)
    s.equal(sorted(got, key=int), numbers(count), "received values")
    return len(got)


@theme
def delayed_holes(s: Session) -> Any:
    """Shared: every second message is delayed by an hour, and the others come."""
    topic, count = s.topic(), 4000
    consumers = _both(s, topic, "shared", queue=200)
    values = numbers(count)
    producer = s.client().producer(topic)
    producer.send_all(values, lambda value: {"deliver_after_ms": 3_600_000} if int(value) % 2 else {})
    got: list[str] = []
    quiet_by = time.monotonic() + COMES_MS / 1000
    while len(got) < count // 2 and time.monotonic() < quiet_by:
        for consumer in consumers:
            if new := consumer.values(100, ack=True, timeout_ms=100):
                got += new
                quiet_by = time.monotonic() + COMES_MS / 1000
    s.equal(sorted(got, key=int), values[::2], "received values")
    return len(got)
