"""Errors of reading from bookies.

BookKeeperError
├── BookieUnavailableError       the bookie cannot be reached, or did not answer in time; another replica may
│   ├── BookieBusyError          the bookie has too many requests; it, or another replica, may answer later
│   └── BatchUnsupportedError    the bookie does not support batch reads (BookKeeper before 4.17)
├── NoSuchEntryError             no replica has the entry
├── NoSuchLedgerError            no replica knows the ledger: it was deleted
└── ReadFailedError              every replica failed; the message has each reason
"""

from __future__ import annotations


class BookKeeperError(Exception):
    """Base of this package's errors."""


class BookieUnavailableError(BookKeeperError):
    """The bookie cannot be reached, or did not answer in time."""


class BookieBusyError(BookieUnavailableError):
    """The bookie answered ETOOMANYREQUESTS."""


class BatchUnsupportedError(BookieUnavailableError):
    """The bookie does not support batch reads: it closes their connections."""


class NoSuchEntryError(BookKeeperError):
    """No replica has the entry."""


class NoSuchLedgerError(BookKeeperError):
    """No replica knows the ledger."""


class ReadFailedError(BookKeeperError):
    """Every replica failed."""
