"""Errors of reading offloaded ledgers.

TieredStorageError
├── SettingMissingError    a credential, bucket or path is missing; the text names the setting
├── ObjectMissingError     the store has no such object or bucket
└── StoreUnavailableError  the store is unreachable, refuses the request, or does not answer in time
"""

from __future__ import annotations


class TieredStorageError(Exception):
    """Base of all errors of this package; codecs raise WireError."""


class SettingMissingError(TieredStorageError):
    """A setting that the store needs is missing; the text names it."""


class ObjectMissingError(TieredStorageError):
    """The store has no such object or bucket."""


class StoreUnavailableError(TieredStorageError):
    """The store is unreachable, refuses the request, or does not answer in time."""
