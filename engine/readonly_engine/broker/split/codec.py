"""Reports and grants as bytes: numbers of variable length, in the order of their fields.

A member sends a report as the key of the one property of an ACK without message ids, a coordinator a grant as the payload of a
MESSAGE. So they need no commands of their own, and go over the connections that relayed consumers use.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final

from readonly_engine.broker.split.leases import (
    MAX_DEFERRED,
    MAX_ENTRIES,
    MAX_RANGES,
    RUN_ENTRIES,
    Deferred,
    Grant,
    Report,
    Run,
)
from readonly_engine.topic.position import Position
from readonly_engine.wire.errors import MalformedFrameError
from readonly_engine.wire.varint import decode_varint, encode_varint

VERSION: Final = 2
"""First number of each. Brokers of another version do not understand it, and refuse."""

_MAX: Final = (1 << 63) - 1
_MS: Final = 1000


def encode_report(report: Report) -> str:
    """Return a report as text."""
    numbers = [
        VERSION,
        report.epoch,
        report.number,
        report.priority,
        report.wanted,
        report.unacked,
        report.received,
        int(report.held is not None),
        int(report.indivisible),
    ]
    encoded = b"".join(
        [
            *map(encode_varint, numbers),
            *(encode_runs(runs) for runs in (report.acked, report.returned, report.held or ())),
            encode_varint(len(report.deferred)),
            *(encode_varint(number) for one in report.deferred for number in one),
        ]
    )
    return base64.b64encode(encoded).decode()


def decode_report(text: str) -> Report:
    """Return the report in a text.

    Raises:
        MalformedFrameError: the bytes are none, or have too many runs.
    """
    try:
        numbers = Numbers(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError) as error:
        raise MalformedFrameError("a report of a member is no base64") from error
    epoch, number, priority, wanted, unacked, received, held, indivisible = (numbers.next() for _ in range(8))
    acked, returned, all_held = (numbers.runs() for _ in range(3))
    deferred = numbers.deferred()
    numbers.end()
    return Report(
        epoch,
        number,
        priority,
        wanted,
        unacked,
        received,
        acked,
        returned,
        deferred,
        all_held if held else None,
        bool(indivisible),
    )


def encode_grant(grant: Grant) -> bytes:
    """Return a grant as bytes."""
    ledger_id, entry_id = grant.mark_delete
    numbers = [
        VERSION,
        grant.epoch,
        grant.number,
        int(grant.valid_s * _MS),
        max(ledger_id, -1) + 1,
        max(entry_id, -1) + 1,
    ]
    return b"".join([*map(encode_varint, numbers), encode_runs(grant.leases)])


def decode_grant(encoded: bytes) -> Grant:
    """Return the grant in bytes.

    Raises:
        MalformedFrameError: the bytes are none, or have too many runs.
    """
    numbers = Numbers(encoded)
    epoch, number, valid_ms, ledger, entry = (numbers.next() for _ in range(5))
    leases = numbers.runs()
    numbers.end()
    return Grant(epoch, number, valid_ms / _MS, Position(ledger - 1, entry - 1), leases)


def encode_runs(runs: tuple[Run, ...]) -> bytes:
    """Return runs as bytes."""
    numbers = [len(runs)]
    for run in runs:
        numbers += [run.ledger_id, run.first, run.last - run.first, run.redelivery_count]
    return b"".join(map(encode_varint, numbers))


class Numbers:
    """The numbers in bytes, in order.

    Args:
        encoded: the bytes, of which the first number must be VERSION.
    """

    def __init__(self, encoded: bytes) -> None:
        self._encoded = encoded
        self._at = 0
        if (version := self.next()) != VERSION:
            raise MalformedFrameError(
                f"version {version} of the leases of split subscriptions, this broker has {VERSION}"
            )

    def next(self) -> int:
        """Return the next number."""
        number, self._at = decode_varint(self._encoded, self._at)
        if number > _MAX:
            raise MalformedFrameError(f"leases of a split subscription with the number {number}")
        return number

    def runs(self) -> tuple[Run, ...]:
        """Return the next runs."""
        count = self.next()
        if count > MAX_RANGES:
            raise MalformedFrameError(f"{count} runs of leases, at most {MAX_RANGES} are allowed")
        return tuple(self._run() for _ in range(count))

    def deferred(self) -> tuple[Deferred, ...]:
        """Return the next delayed entries."""
        count = self.next()
        if count > MAX_DEFERRED:
            raise MalformedFrameError(f"{count} delayed entries in a report, at most {MAX_DEFERRED} are allowed")
        return tuple(Deferred(self.next(), self.next(), self.next()) for _ in range(count))

    def _run(self) -> Run:
        ledger_id, first, more, count = (self.next() for _ in range(4))
        limit = RUN_ENTRIES if count else MAX_ENTRIES
        if more >= limit:
            raise MalformedFrameError(f"a run of {more + 1} leased entries, at most {limit} are allowed")
        return Run(ledger_id, first, first + more, count)

    def raw(self, limit: int) -> bytes:
        """Return the next bytes, with their length before them."""
        length = self.next()
        if length > limit:
            raise MalformedFrameError(f"{length} bytes in leases of a split subscription, at most {limit} are allowed")
        self._at += length
        if self._at > len(self._encoded):
            raise MalformedFrameError("leases of a split subscription end early")
        return self._encoded[self._at - length : self._at]

    @property
    def more(self) -> bool:
        """Whether bytes are left."""
        return self._at < len(self._encoded)

    def end(self) -> None:
        """Check that no bytes are left."""
        if self._at != len(self._encoded):
            raise MalformedFrameError("leases of a split subscription with bytes after them")
