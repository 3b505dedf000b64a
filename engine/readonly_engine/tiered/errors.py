"""Errors of reading offloaded ledgers.

TieredStorageError
├── SettingMissingError    a credential, bucket or path that nobody gave: names the setting
├── ObjectMissingError     the store has no such object or bucket
└── StoreUnavailableError  the store cannot be reached, refuses, or does not answer in time
"""

from __future__ import annotations


class TieredStorageError(Exception):
    """Base of all that this package can raise, beside the codecs' errors."""


class SettingMissingError(TieredStorageError):
    """A setting is missing without which the store cannot be read; the message names it."""


class ObjectMissingError(TieredStorageError):
    """The store has no such object, or no such bucket."""


class StoreUnavailableError(TieredStorageError):
    """The store cannot be reached, refuses, or does not answer in time."""
