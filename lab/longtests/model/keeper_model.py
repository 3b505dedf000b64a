"""Model of an Exclusive subscription whose keeper changes: between local cursors and the owner, at one broker after the other.

Runs Broker._evict, LocalSubscriptionNames and OwnerSubscriptionNames. A SUBSCRIBE looks and creates in one step, as a migration
moves in one: neither side locks the name, so what happens between look and creation is not modelled.
"""

from __future__ import annotations

import asyncio
from functools import lru_cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from readonly_engine.broker.cursors.local_names import LocalSubscriptionNames
from readonly_engine.broker.cursors.owner_names import OwnerSubscriptionNames
from readonly_engine.broker.cursors.partitions import guard_name
from readonly_engine.broker.pool.bindings import Binding, Bindings, parse_pattern
from readonly_engine.broker.pool.claims import ClaimKey
from readonly_engine.broker.server.broker import Broker
from readonly_engine.config.settings import Cursors
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.owner.errors import OwnerRefusedError
from readonly_engine.owner.identity import ANONYMOUS
from readonly_engine.wire.pulsar_pb2 import CommandSubscribe, ServerError

from longtests.model.machines import NONE
from longtests.model.search import Violation
from tests.support.played_broker import bound_consumer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LOCAL: Final = 0
OWNER: Final = 1
KEEPERS: Final = ("the pool", "the owner")

TOPIC: Final = parse_topic_name("orders")
SUBSCRIBE: Final = CommandSubscribe(topic=str(TOPIC), subscription="s", sub_type=CommandSubscribe.Exclusive)


class Keeping(NamedTuple):
    """State of the keeper model.

    Attributes:
        published: number of entries in the topic.
        acked: number of entries before the first one that the subscription still has to get.
        wanted: the keeper in the binding.
        known: the keeper in the bindings of each broker.
        cursors: number of acked entries at the pool and at the owner; NONE without a cursor.
        consumers: keeper of each broker's consumer; NONE without one.
        changes: number of changes of the binding that are left.
    """

    published: int = 0
    acked: int = 0
    wanted: int = LOCAL
    known: tuple[int, int] = (LOCAL, LOCAL)
    cursors: tuple[int, int] = (NONE, NONE)
    consumers: tuple[int, int] = (NONE, NONE)
    changes: int = 2


Step = tuple[str, Keeping]


class KeeperModel:
    """A subscription with two keepers.

    Args:
        name: for reports.
        entries: number of entries that the topic gets.
        clients: number of clients, which connect to any broker; at most one for each broker.
        mutants: former behaviour to restore.
    """

    def __init__(self, name: str, *, entries: int, clients: int, mutants: Iterable[str] = ()) -> None:
        self.name = name
        self.entries = entries
        self._clients = clients
        self._mutants = frozenset(mutants)

    def initial(self) -> Keeping:
        """Return an empty topic without subscriptions."""
        return Keeping()

    def steps(self, at: Keeping) -> Iterator[Step]:
        """Yield the possible next steps."""
        if at.published < self.entries:
            yield f"entry {at.published} is published", at._replace(published=at.published + 1)
        if at.changes:
            wanted = 1 - at.wanted
            yield f"the binding names {KEEPERS[wanted]}", at._replace(wanted=wanted, changes=at.changes - 1)
        for number in range(2):
            who = f"broker {'AB'[number]}"
            if at.known[number] != at.wanted:
                yield f"{who} reads the binding", self._read(at, number)
            keeper = at.consumers[number]
            if keeper == NONE and len([one for one in at.consumers if one != NONE]) < self._clients:
                yield from self._comes(at, number, who)
            if keeper == NONE:
                continue
            yield f"the client leaves {who}", at._replace(consumers=_set(at.consumers, number, NONE))
            if (entry := at.cursors[keeper]) < at.published:
                step = f"{who} delivers entry {entry} for {KEEPERS[keeper]}, and gets its ack"
                if entry != at.acked:
                    how = "skipped" if entry > at.acked else "delivered again"
                    raise Violation(step, f"entry {min(entry, at.acked)} is {how}")
                yield step, at._replace(acked=entry + 1, cursors=_set(at.cursors, keeper, entry + 1))
        yield from self._moves(at)

    def _read(self, at: Keeping, number: int) -> Keeping:
        after = at._replace(known=_set(at.known, number, at.wanted))
        keeper = at.consumers[number]
        if "keeper-change-closes-nobody" in self._mutants or keeper == NONE or not closes(keeper, at.wanted):
            return after
        return after._replace(consumers=_set(at.consumers, number, NONE))

    def _comes(self, at: Keeping, number: int, who: str) -> Iterator[Step]:
        keeper = at.known[number]
        there, other = at.cursors[keeper] != NONE, at.cursors[1 - keeper] != NONE
        if keeper in at.consumers:
            return  # it is Exclusive
        if keeper == LOCAL and not there and "pool-ignores-owner" not in self._mutants and local_refuses(other):
            return
        if keeper == OWNER and "owner-ignores-pool" not in self._mutants and owner_refuses(there, other):
            return
        came = at._replace(consumers=_set(at.consumers, number, keeper))
        step = f"a client subscribes at {who}, and {KEEPERS[keeper]} keeps the cursor"
        if not there:  # a new one begins at the end
            came = came._replace(cursors=_set(at.cursors, keeper, at.published))
            came = came if other else came._replace(acked=at.published)
        yield step, came

    def _moves(self, at: Keeping) -> Iterator[Step]:
        """Yield an export at any broker, and an import where local cursors are kept."""
        for old in (LOCAL, OWNER):
            here, there = at.cursors[old], at.cursors[1 - old]
            if here == NONE or there != NONE or old in at.consumers or (old == OWNER and LOCAL not in at.known):
                continue
            moved = (NONE, here) if old == LOCAL else (here, NONE)
            yield f"an administrator moves the subscription to {KEEPERS[1 - old]}", at._replace(cursors=moved)

    def canonical(self, at: Keeping) -> Keeping:
        """Return the lesser of the two states that differ in the brokers' names."""
        return min(at, at._replace(known=at.known[::-1], consumers=at.consumers[::-1]))

    def wrong(self, at: Keeping) -> str:
        """Return a violation if a consumer stays where it does not belong, or both keepers have one."""
        over = at.known == (at.wanted, at.wanted) and not at.changes and at.published == self.entries
        if over and any(keeper not in {NONE, at.wanted} for keeper in at.consumers):
            return "a consumer stays at the former keeper"
        return "an Exclusive subscription has two consumers" if NONE not in at.consumers else ""

    def done(self, at: Keeping) -> bool:
        """Return whether the present keeper has served every entry."""
        return at.cursors[at.wanted] == self.entries and at.wanted in at.consumers and at.acked == self.entries


def _set(pair: tuple[int, int], index: int, value: int) -> tuple[int, int]:
    return (value, pair[1]) if index == 0 else (pair[0], value)


@lru_cache
def closes(keeper: int, wanted: int) -> bool:
    """Return whether a broker closes a consumer when the binding names another keeper."""
    consumer = bound_consumer(str(TOPIC), SUBSCRIBE.subscription, bound=True, kept_here=keeper == LOCAL)
    cursors = (Cursors.LOCAL, Cursors.OWNER)[wanted]
    bindings = Bindings((Binding("b", (parse_pattern(str(TOPIC)),), cursors=cursors),))
    parts: Any = None
    connections: Any = [SimpleNamespace(consumers=[consumer])]
    broker = Broker(parts, parts, parts, parts, parts, parts, parts, parts, bindings, None)
    broker.connections = connections
    broker._evict(Bindings())
    return bool(consumer.closed_for)


@lru_cache
def local_refuses(at_owner: bool) -> bool:
    """Return whether the pool refuses a new local subscription."""

    async def subscriptions(_: object) -> frozenset[str]:
        return frozenset({"s"} if at_owner else ())

    admin: Any = SimpleNamespace(subscriptions=subscriptions)
    return _refused(lambda: OwnerSubscriptionNames(admin).check(TOPIC, "s"))


@lru_cache
def owner_refuses(at_owner: bool, local: bool) -> bool:
    """Return whether a broker refuses a subscription that its owner shall keep."""
    names = {"s"} if at_owner else set()
    names |= {guard_name("pool", 0)} if local else set()

    async def partitions(_: object) -> int:
        return 1

    async def has_subscription(_: object, name: str) -> bool:
        return name in names

    async def key_of(*_: object) -> ClaimKey:
        return ClaimKey(TOPIC.at(0), "")

    async def place(_: object) -> str:
        return ""

    async def opened(_: object) -> Any:
        return SimpleNamespace(check_absent=check_absent)

    async def check_absent(_: object) -> None:
        if local:
            raise OwnerRefusedError(ServerError.NotAllowedError, "a local cursor")

    cursors: Any = SimpleNamespace(key_of=key_of, place=place, open=opened)
    stored: Any = SimpleNamespace(partitions=partitions, has_subscription=has_subscription)
    pool: Any = SimpleNamespace(identity="pool")
    owners: Any = None
    return _refused(lambda: LocalSubscriptionNames(cursors, stored, owners, pool).check(TOPIC, ANONYMOUS, SUBSCRIBE))


def _refused(look: Any) -> bool:
    async def run() -> bool:
        try:
            await look()
        except OwnerRefusedError:
            return True
        return False

    return asyncio.run(run())
