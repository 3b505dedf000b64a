"""State machine that reads a range of one ledger from its replicas. Pure.

The range is cut into parts, which are read concurrently and returned in order. A part is a batch read (protocol v2) of about
1 MiB. It is a single entry (protocol v3) if the ensemble is striped or its bookies do not support batch reads. All parts go to
one replica. After an error or a timeout a part goes to the next replica too, and the first answer wins.

Times are seconds of any monotonic clock.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from readonly_engine.bookkeeper.errors import NoSuchEntryError, NoSuchLedgerError, ReadFailedError
from readonly_engine.bookkeeper.reads import stretches
from readonly_engine.wire.bookkeeper_pb2 import ENOENTRY, ENOLEDGER, ETOOMANYREQUESTS, EUA

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from readonly_engine.bookkeeper.errors import BookKeeperError
    from readonly_engine.bookkeeper.replicas import ReplicaOrder
    from readonly_engine.wire.entry import Entry
    from readonly_engine.wire.ledgers import LedgerMetadata

PART_BYTES: Final = 1 << 20
"""Target size of one batch read."""

MAX_PART_ENTRIES: Final = 5000

STRETCH_BYTES: Final = 256 << 20
"""Consecutive stretches of a ledger go to its replicas in turn. Bookies read ahead by a thousand entries by default. With
smaller stretches two bookies would each read all entries; with larger ones two tasks at one bookie would make it read twice."""

SINGLES_PER_READ: Final = 64
"""Concurrent reads of single entries that replace one batch read."""

MIN_BATCH_ENTRIES: Final = 2

BUSY_DEADLINE_S: Final = 30.0
"""Time to retry bookies that report too many requests."""


class Request(NamedTuple):
    """One read request.

    Attributes:
        token: identifies the request in `on_entries` and `on_failure`.
        bookie_id: the bookie.
        first: the first entry.
        max_entries: the maximum number of entries.
        batch: True for a batch read, False for a single entry.
    """

    token: int
    bookie_id: str
    first: int
    max_entries: int
    batch: bool


@dataclass(slots=True)
class _Part:
    first: int
    last: int
    ensemble: tuple[str, ...]
    batch: bool
    found: list[Entry] = field(default_factory=list)
    pending: dict[int, tuple[str, float]] = field(default_factory=dict)  # token to bookie and time
    failures: dict[str, tuple[int | None, str]] = field(default_factory=dict)  # bookie to status and reason
    next_request_at: float = 0.0
    give_up_at: float | None = None

    @property
    def next_entry(self) -> int:
        return self.first + len(self.found)

    @property
    def done(self) -> bool:
        return self.next_entry > self.last


class Fetch:
    """Read the entries from `first` to `last`, both included.

    Args:
        ledger_id: the ledger.
        metadata: its bookies.
        first: the first entry.
        last: the last entry.
        entry_bytes: the estimated average size of an entry.
        in_flight: maximum number of batches that are requested, or received and not taken yet.
        choice: the order of replicas, and the time to wait for each.
        supports_batches: returns whether a bookie supports batch reads.
        tokens: returns the next request token.
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
        choice: ReplicaOrder,
        supports_batches: Callable[[str], bool],
        tokens: Callable[[], int],
    ) -> None:
        self.ledger_id = ledger_id
        self._metadata = metadata
        self._next = first
        self._last = last
        self._entry_bytes = max(entry_bytes, 1.0)
        self._in_flight = in_flight
        self._choice = choice
        self._supports_batches = supports_batches
        self._tokens = tokens
        self._parts: deque[_Part] = deque()
        self._by_token: dict[int, _Part] = {}
        self._turn = round(first * self._entry_bytes / STRETCH_BYTES)

    @property
    def done(self) -> bool:
        """Whether all entries were taken."""
        return not self._parts and self._next > self._last

    def take(self) -> list[Entry] | None:
        """Return the next entries; None if they have not arrived."""
        if not self._parts or not self._parts[0].done:
            return None
        part = self._parts.popleft()
        # Size the next parts by the entries that arrived last.
        newest = part.found[-1]
        if newest.length > 0:
            self._entry_bytes = max(newest.length / (newest.entry_id + 1), 1.0)
        return part.found

    def requests(self, now: float) -> list[Request]:
        """Return the requests to send now: for new parts, for slow replicas, and retries.

        Raises:
            BookKeeperError: no replica can provide an entry.
        """
        sent: list[Request] = []
        while self._next <= self._last and self._has_room():
            self._parts.append(self._next_part())
        for part in list(self._parts):
            if not part.done and now >= part.next_request_at:
                self._request_part(part, now, sent)
        return sent

    def next_timer(self) -> float:
        """Return the time to call `requests` again if no answer arrives before."""
        return min((part.next_request_at for part in self._parts if not part.done), default=float("inf"))

    def on_entries(self, token: int, entries: Sequence[Entry], now: float) -> None:
        """Handle an answer: at least one entry from the first requested one on, perhaps fewer than requested."""
        part = self._by_token.pop(token, None)
        if part is None:
            return  # another replica was faster
        bookie_id, requested_at = part.pending.pop(token)
        self._choice.answered(bookie_id, now - requested_at, now)
        part.found += entries[: part.last - part.next_entry + 1]
        self._cancel_requests(part)
        part.failures.clear()
        part.give_up_at = None
        part.next_request_at = now

    def on_failure(self, token: int, status: int | None, reason: str, now: float) -> None:
        """Handle a failed request.

        Args:
            token: the request.
            status: the StatusCode; None without an answer, or for a damaged one; EUA also for a bookie that refuses the
                connection.
            reason: the reason for error messages.
            now: the time.
        """
        part = self._by_token.pop(token, None)
        if part is None:
            return
        bookie_id, _ = part.pending.pop(token)
        part.failures[bookie_id] = (status, f"{bookie_id}: {reason}")
        if status == ETOOMANYREQUESTS:
            self._choice.busy(bookie_id, now)
        elif status in {None, EUA}:
            self._choice.failed(bookie_id, now)
        if not part.pending:
            part.next_request_at = now

    # Parts

    def _has_room(self) -> bool:
        batches = sum(1.0 if part.batch else 1.0 / SINGLES_PER_READ for part in self._parts)
        return batches < self._in_flight

    def _next_part(self) -> _Part:
        first, end, ensemble = next(stretches(self._metadata, self._next, self._last))
        batch = (
            end - first + 1 >= MIN_BATCH_ENTRIES
            and self._metadata.write_quorum == len(ensemble)
            and any(map(self._supports_batches, ensemble))
        )
        size = max(1, min(int(PART_BYTES / self._entry_bytes), MAX_PART_ENTRIES)) if batch else 1
        last = min(first + size - 1, end)
        self._next = last + 1
        return _Part(first, last, ensemble, batch)

    def _request_part(self, part: _Part, now: float, sent: list[Request]) -> None:
        """Request a part from the next replica; without one, wait for pending or busy replicas, or give up."""
        out = {bookie_id for bookie_id, _ in part.pending.values()}
        left = [
            bookie_id
            for bookie_id in self._choice.order(self._replicas(part), now, self._turn)
            if bookie_id not in part.failures and bookie_id not in out and not self._choice.rest(bookie_id, now)
        ]
        if left:
            for bookie_id in out:
                self._choice.failed(bookie_id, now)  # it is slow
            token = self._tokens()
            part.pending[token] = (left[0], now)
            self._by_token[token] = part
            part.next_request_at = now + self._choice.speculative_timeout(left[0], now)
            sent.append(Request(token, left[0], part.next_entry, part.last - part.next_entry + 1, part.batch))
        elif part.pending:
            part.next_request_at = float("inf")
        elif not self._retry_busy(part, now):
            if not part.batch:
                raise self._failure(part)
            self._split_into_singles(part)
            part.next_request_at = float("inf")
            for single in self._parts:
                if not single.batch and not single.pending and not single.done and now >= single.next_request_at:
                    self._request_part(single, now, sent)

    def _replicas(self, part: _Part) -> tuple[str, ...]:
        if part.batch:
            return tuple(filter(self._supports_batches, part.ensemble))
        return self._metadata.replicas_of(part.next_entry)

    def _retry_busy(self, part: _Part, now: float) -> bool:
        """Schedule a retry if replicas report too many requests; return False if there is none to retry."""
        rests = [rest for bookie_id in self._replicas(part) if (rest := self._choice.rest(bookie_id, now))]
        if part.give_up_at is None:
            part.give_up_at = now + BUSY_DEADLINE_S
        if not rests or now + min(rests) > part.give_up_at:
            return False
        for bookie_id in [name for name, (status, _) in part.failures.items() if status == ETOOMANYREQUESTS]:
            del part.failures[bookie_id]
        part.next_request_at = now + min(rests)
        return True

    def _split_into_singles(self, part: _Part) -> None:
        """Read the rest of a batch entry by entry, each from every replica, as no replica can provide the batch."""
        self._cancel_requests(part)
        index = self._parts.index(part)
        self._parts.remove(part)
        singles = [
            _Part(entry_id, entry_id, part.ensemble, False) for entry_id in range(part.next_entry, part.last + 1)
        ]
        if part.found:
            singles.insert(0, _Part(part.first, part.next_entry - 1, part.ensemble, False, part.found))
        for single in reversed(singles):
            self._parts.insert(index, single)

    def _cancel_requests(self, part: _Part) -> None:
        for token in part.pending:
            self._by_token.pop(token, None)
        part.pending.clear()

    def _failure(self, part: _Part) -> BookKeeperError:
        reasons = "; ".join(sorted(reason for _, reason in part.failures.values())) or "no replica is available"
        message = f"entry {self.ledger_id}:{part.next_entry} ({reasons})"
        kinds = {status for status, _ in part.failures.values()}
        if not kinds or not kinds <= {ENOENTRY, ENOLEDGER}:
            return ReadFailedError(message, refused=kinds == {EUA})
        error = NoSuchLedgerError(message) if kinds == {ENOLEDGER} else NoSuchEntryError(message)
        error.missing = (part.next_entry, self._missing_to(part) if kinds == {ENOLEDGER} else part.next_entry)
        return error

    def _missing_to(self, part: _Part) -> int:
        """Return the last entry that the replicas of a part do not have, if none of them knows the ledger."""
        if self._metadata.write_quorum < len(part.ensemble):
            return part.next_entry  # other entries are on other bookies
        _, end, _ = next(stretches(self._metadata, part.next_entry, self._last))
        return end
