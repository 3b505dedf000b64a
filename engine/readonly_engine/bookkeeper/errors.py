"""Errors of reading from bookies.

BookKeeperError
├── BookieUnavailableError       the bookie cannot be reached, or did not answer in time; another replica may
│   ├── BookieBusyError          the bookie has too many requests; it, or another replica, may answer later
│   └── BatchUnsupportedError    the bookie does not support batch reads (BookKeeper before 4.17)
├── MissingEntriesError          entries do not exist
│   ├── NoSuchEntryError         no replica has the entry
│   └── NoSuchLedgerError        no replica knows the ledger: it was deleted
└── ReadFailedError              every replica failed; the message has each reason
"""

from __future__ import annotations

from readonly_engine.wire.bookkeeper_pb2 import EUA


class BookKeeperError(Exception):
    """Base of this package's errors."""


class BookieUnavailableError(BookKeeperError):
    """The bookie cannot be reached, or did not answer in time."""


class BookieBusyError(BookieUnavailableError):
    """The bookie answered ETOOMANYREQUESTS."""


class BatchUnsupportedError(BookieUnavailableError):
    """The bookie does not support batch reads: it closes their connections."""


class MissingEntriesError(BookKeeperError):
    """Entries do not exist, on any replica.

    Attributes:
        missing: first and last entry that certainly do not exist; None if it is not known.
    """

    missing: tuple[int, int] | None = None


class NoSuchEntryError(MissingEntriesError):
    """No replica has the entry."""


class NoSuchLedgerError(MissingEntriesError):
    """No replica knows the ledger."""


class ReadFailedError(BookKeeperError):
    """Every replica failed."""


def failed_request(bookie_id: str, status: int, request: str) -> BookieUnavailableError:
    """Return the error of a bookie that answers a request with a status other than EOK."""
    remedy = ": it serves only clients that log in; give bookie-login-file" if status == EUA else ""
    return BookieUnavailableError(f"bookie {bookie_id} answered {status} to {request}{remedy}")
