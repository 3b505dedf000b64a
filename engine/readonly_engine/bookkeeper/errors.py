"""Errors of reading from bookies.

BookKeeperError
├── BookieUnavailableError   the bookie cannot be reached, or did not answer in time; another replica may
├── NoSuchEntryError         no replica has the entry
├── NoSuchLedgerError        no replica knows the ledger: it was deleted
└── ReadFailedError          every replica failed, for the reasons it names
"""

from __future__ import annotations


class BookKeeperError(Exception):
    """Base of all that this package can raise."""


class BookieUnavailableError(BookKeeperError):
    """The bookie cannot be reached, or did not answer in time."""


class NoSuchEntryError(BookKeeperError):
    """No replica has the entry."""


class NoSuchLedgerError(BookKeeperError):
    """No replica knows the ledger."""


class ReadFailedError(BookKeeperError):
    """Every replica failed."""
