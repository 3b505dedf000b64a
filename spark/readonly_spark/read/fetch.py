"""Fetching a stretch of one ledger from its replicas: which request goes to whom, and what follows from each answer. Pure.

The stretch is cut into parts that are under way side by side and given out in order. A part is a batch (v2) of about 1 MiB, or
one entry (v3) where the ensemble is striped or its bookies do not know batches. All parts go to one replica; on any error to the
next; after a while without an answer to the next as well, and the first answer counts.

Times are seconds of any monotonic clock.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from readonly_engine.bookkeeper.errors import NoSuchEntryError, NoSuchLedgerError, ReadFailedError
from readonly_engine.bookkeeper.reads import stretches
from readonly_engine.wire.bookkeeper_pb2 import ENOENTRY, ENOLEDGER, ETOOMANYREQUESTS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from readonly_engine.bookkeeper.errors import BookKeeperError
    from readonly_engine.bookkeeper.replicas import ReplicaChoice
    from readonly_engine.wire.entry import Entry
    from readonly_engine.wire.ledgers import LedgerMetadata

PART_BYTES: Final = 1 << 20
"""What one batch is meant to bring."""

PART_MOST_ENTRIES: Final = 5000

STRETCH_BYTES: Final = 256 << 20
"""Stretches of a ledger go to its replicas by turns, of this size and not less: bookies read far ahead of what they are asked
for, a thousand entries by default, so that of two that are asked for neighbouring parts each would read all. Nor more: two
tasks that read at one bookie, so far apart, make it read some of it twice."""

SINGLES_PER_READ: Final = 64
"""So many single entries may be under way in the place of one batch."""

LEAST_BATCH: Final = 2

BUSY_DEADLINE_S: Final = 30.0
"""Bookies that have too many requests are asked again for so long."""


class Request(NamedTuple):
    """One request.

    Attributes:
        token: names it in the answers.
        bookie_id: whom to ask.
        first: the first entry.
        most: how many entries at most.
        batch: whether to ask for a batch, else for the one entry.
    """

    token: int
    bookie_id: str
    first: int
    most: int
    batch: bool


@dataclass(slots=True)
class _Part:
    first: int
    last: int
    ensemble: tuple[str, ...]
    batch: bool
    found: list[Entry] = field(default_factory=list)
    asked: dict[int, tuple[str, float]] = field(default_factory=dict)  # token to bookie and time
    failures: dict[str, tuple[int | None, str]] = field(default_factory=dict)  # bookie to status and reason
    ask_more_at: float = 0.0
    give_up_at: float | None = None

    @property
    def wanted(self) -> int:
        return self.first + len(self.found)

    @property
    def done(self) -> bool:
        return self.wanted > self.last


class Fetch:
    """Fetches the entries from `first` to `last`, both included.

    Args:
        ledger_id: the ledger.
        metadata: its bookies.
        first: the first entry.
        last: the last entry.
        entry_bytes: the average size of an entry, about.
        in_flight: how many batches may be under way or not given out yet.
        choice: whom to ask first, and how long to wait.
        knows_batches: whether a bookie can be asked for batches.
        tokens: gives the next number for a request.
    """

    def __init__(
        self,
        ledger_id: int,
        metadata: LedgerMetadata,
        first: int,
        last: int,
        *,
        entry_bytes: float,
        in_flight: int,
        choice: ReplicaChoice,
        knows_batches: Callable[[str], bool],
        tokens: Callable[[], int],
    ) -> None:
        self.ledger_id = ledger_id
        self._metadata = metadata
        self._next = first
        self._last = last
        self._entry_bytes = max(entry_bytes, 1.0)
        self._in_flight = in_flight
        self._choice = choice
        self._knows_batches = knows_batches
        self._tokens = tokens
        self._parts: deque[_Part] = deque()
        self._by_token: dict[int, _Part] = {}
        self._turn = round(first * self._entry_bytes / STRETCH_BYTES)

    @property
    def done(self) -> bool:
        """Whether everything was given out."""
        return not self._parts and self._next > self._last

    def take(self) -> list[Entry] | None:
        """The next entries; None where they have not come yet."""
        if not self._parts or not self._parts[0].done:
            return None
        part = self._parts.popleft()
        # What comes next is cut by the size of what came last.
        newest = part.found[-1]
        if newest.length > 0:
            self._entry_bytes = max(newest.length / (newest.entry_id + 1), 1.0)
        return part.found

    def requests(self, now: float) -> list[Request]:
        """What to send now: for new parts, for parts whose replica is slow, and after a rest.

        Raises:
            BookKeeperError: an entry cannot be had from any replica.
        """
        sent: list[Request] = []
        while self._next <= self._last and self._room():
            self._parts.append(self._cut())
        for part in list(self._parts):
            if not part.done and now >= part.ask_more_at:
                self._ask(part, now, sent)
        return sent

    def wake_at(self) -> float:
        """When to call `requests` again, if no answer comes before."""
        return min((part.ask_more_at for part in self._parts if not part.done), default=float("inf"))

    def answered(self, token: int, entries: Sequence[Entry], now: float) -> None:
        """Entries have come: from the one that was asked for on, at least one, perhaps fewer than were asked for."""
        part = self._by_token.pop(token, None)
        if part is None:
            return  # another replica was quicker
        bookie_id, asked_at = part.asked.pop(token)
        self._choice.answered(bookie_id, now - asked_at, now)
        part.found += entries[: part.last - part.wanted + 1]
        self._forget(part)
        part.failures.clear()
        part.give_up_at = None
        part.ask_more_at = now

    def failed(self, token: int, status: int | None, reason: str, now: float) -> None:
        """A replica has not what was asked for, or cannot give it now.

        Args:
            token: the request.
            status: a StatusCode; None where there was no answer, or a damaged one.
            reason: for messages.
            now: the time.
        """
        part = self._by_token.pop(token, None)
        if part is None:
            return
        bookie_id, _ = part.asked.pop(token)
        part.failures[bookie_id] = (status, f"{bookie_id}: {reason}")
        if status == ETOOMANYREQUESTS:
            self._choice.busy(bookie_id, now)
        elif status is None:
            self._choice.failed(bookie_id, now)
        if not part.asked:
            part.ask_more_at = now

    # Parts

    def _room(self) -> bool:
        batches = sum(1.0 if part.batch else 1.0 / SINGLES_PER_READ for part in self._parts)
        return batches < self._in_flight

    def _cut(self) -> _Part:
        first, end, ensemble = next(stretches(self._metadata, self._next, self._last))
        batch = (
            end - first + 1 >= LEAST_BATCH
            and self._metadata.write_quorum == len(ensemble)
            and any(map(self._knows_batches, ensemble))
        )
        size = max(1, min(int(PART_BYTES / self._entry_bytes), PART_MOST_ENTRIES)) if batch else 1
        last = min(first + size - 1, end)
        self._next = last + 1
        return _Part(first, last, ensemble, batch)

    def _ask(self, part: _Part, now: float, sent: list[Request]) -> None:
        """Ask the next replica for a part; where none is left wait for those asked, for those that rest, or give up."""
        out = {bookie_id for bookie_id, _ in part.asked.values()}
        left = [
            bookie_id
            for bookie_id in self._choice.order(self._replicas(part), now, self._turn)
            if bookie_id not in part.failures and bookie_id not in out and not self._choice.rest(bookie_id, now)
        ]
        if left:
            for bookie_id in out:
                self._choice.failed(bookie_id, now)  # it lets us wait
            token = self._tokens()
            part.asked[token] = (left[0], now)
            self._by_token[token] = part
            part.ask_more_at = now + self._choice.patience(left[0], now)
            sent.append(Request(token, left[0], part.wanted, part.last - part.wanted + 1, part.batch))
        elif part.asked:
            part.ask_more_at = float("inf")
        elif not self._rested(part, now):
            if not part.batch:
                raise self._verdict(part)
            self._one_by_one(part)
            part.ask_more_at = float("inf")
            for single in self._parts:
                if not single.batch and not single.asked and not single.done and now >= single.ask_more_at:
                    self._ask(single, now, sent)

    def _replicas(self, part: _Part) -> tuple[str, ...]:
        if part.batch:
            return tuple(filter(self._knows_batches, part.ensemble))
        return self._metadata.replicas_of(part.wanted)

    def _rested(self, part: _Part, now: float) -> bool:
        """Where replicas have too many requests: ask them again when they may be asked."""
        rests = [rest for bookie_id in self._replicas(part) if (rest := self._choice.rest(bookie_id, now))]
        if part.give_up_at is None:
            part.give_up_at = now + BUSY_DEADLINE_S
        if not rests or now + min(rests) > part.give_up_at:
            return False
        for bookie_id in [name for name, (status, _) in part.failures.items() if status == ETOOMANYREQUESTS]:
            del part.failures[bookie_id]
        part.ask_more_at = now + min(rests)
        return True

    def _one_by_one(self, part: _Part) -> None:
        """No replica gives the rest of a batch: its entries are asked for by themselves, each from every replica."""
        self._forget(part)
        index = self._parts.index(part)
        self._parts.remove(part)
        singles = [_Part(entry_id, entry_id, part.ensemble, False) for entry_id in range(part.wanted, part.last + 1)]
        if part.found:
            singles.insert(0, _Part(part.first, part.wanted - 1, part.ensemble, False, part.found))
        for single in reversed(singles):
            self._parts.insert(index, single)

    def _forget(self, part: _Part) -> None:
        for token in part.asked:
            self._by_token.pop(token, None)
        part.asked.clear()

    def _verdict(self, part: _Part) -> BookKeeperError:
        reasons = "; ".join(sorted(reason for _, reason in part.failures.values())) or "no replica can be asked"
        what = f"entry {self.ledger_id}:{part.wanted} ({reasons})"
        kinds = {status for status, _ in part.failures.values()}
        if kinds == {ENOLEDGER}:
            return NoSuchLedgerError(what)
        if kinds and kinds <= {ENOENTRY, ENOLEDGER}:
            return NoSuchEntryError(what)
        return ReadFailedError(what)
