"""Errors of reading from bookies.

BookKeeperError
├── BookieUnavailableError       the bookie cannot be reached, or did not answer in time; another replica may
│   ├── BookieRefusedError       the bookie refuses this client: its login or certificate is wrong
│   ├── BookieBusyError          the bookie has too many requests; it, or another replica, may answer later
│   └── BatchUnsupportedError    the bookie does not support batch reads (BookKeeper before 4.17)
├── MissingEntriesError          entries do not exist
│   ├── NoSuchEntryError         no replica has the entry
│   └── NoSuchLedgerError        no replica knows the ledger: it was deleted
└── ReadFailedError              every replica failed; the message has each reason
"""

from __future__ import annotations

import ssl

from readonly_engine.wire.bookkeeper_pb2 import EUA


class BookKeeperError(Exception):
    """Base of this package's errors.

    Attributes:
        refused: whether bookies refuse this client, so that another try needs another login or certificate.
    """

    refused = False


class BookieUnavailableError(BookKeeperError):
    """The bookie cannot be reached, or did not answer in time."""


class BookieRefusedError(BookieUnavailableError):
    """The bookie refuses this client, or has a certificate that this client does not trust."""

    refused = True


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
    """Every replica failed.

    Args:
        message: the reasons.
        refused: whether each of them refuses this client.
    """

    def __init__(self, message: str, *, refused: bool = False) -> None:
        super().__init__(message)
        self.refused = refused


def failed_request(bookie_id: str, status: int, request: str) -> BookieUnavailableError:
    """Return the error of a bookie that answers a request with a status other than EOK."""
    what = f"bookie {bookie_id} answered {status} to {request}"
    if status == EUA:
        return BookieRefusedError(f"{what}: it serves only clients that log in; give bookie-login-file")
    return BookieUnavailableError(what)


def failed_connection(message: str, why: BaseException | None) -> BookieUnavailableError:
    """Return the error of a connection that could not be made, or was lost.

    Args:
        message: the text of the error.
        why: the reason.
    """
    return (BookieRefusedError if is_refusal(why) else BookieUnavailableError)(message)


def is_refusal(error: BaseException | None) -> bool:
    """Return whether an error says that a bookie refuses this client, or that its certificate is not trusted.

    Errors of TLS are such, except those of a connection that ends.
    """
    if isinstance(error, BookKeeperError):
        return error.refused
    lost = ssl.SSLEOFError | ssl.SSLZeroReturnError | ssl.SSLSyscallError | ssl.SSLWantReadError | ssl.SSLWantWriteError
    return isinstance(error, ssl.SSLError) and not isinstance(error, lost)
