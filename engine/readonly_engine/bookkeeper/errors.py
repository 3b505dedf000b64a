"""Errors of reading from bookies.

BookKeeperError
├── BookieUnavailableError       the bookie cannot be reached, or did not answer in time; another replica may
│   ├── BookieBusyError          the bookie has too many requests; it, or another replica, may answer later
│   └── BatchUnsupportedError    the bookie does not know batch reads (BookKeeper before 4.17)
├── NoSuchEntryError             no replica has the entry
├── NoSuchLedgerError            no replica knows the ledger: it was deleted
└── ReadFailedError              every replica failed, for the reasons it names
"""

from __future__ import annotations


class BookKeeperError(Exception):
    """Base of all that this package can raise."""


class BookieUnavailableError(BookKeeperError):
    """The bookie cannot be reached, or did not answer in time."""


class BookieBusyError(BookieUnavailableError):
    """The bookie answered that it has too many requests."""


class BatchUnsupportedError(BookieUnavailableError):
    """The bookie closes connections on which a batch is asked for."""


class NoSuchEntryError(BookKeeperError):
    """No replica has the entry."""


class NoSuchLedgerError(BookKeeperError):
    """No replica knows the ledger."""


class ReadFailedError(BookKeeperError):
    """Every replica failed."""
