"""The setting `tiered-storage`: where offloaded ledgers are read, and with what.

Nothing of it is needed where the broker's own words, which stand beside each offloaded ledger in the metadata store, are right
here too: driver, bucket, region, endpoint. Credentials are never there; they come from a file or from the environment.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

TIERED_STORAGE_FIRST = "tiered-storage-first"
BOOKKEEPER_FIRST = "bookkeeper-first"
PRIORITIES = (TIERED_STORAGE_FIRST, BOOKKEEPER_FIRST)
"""As the brokers' managedLedgerDataReadPriority."""

MIN_READ_BYTES = 64 << 10


class TieredConfigError(ValueError):
    """A key of `tiered-storage` that cannot be used: names it, and says what would be right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TieredConfig:
    """How offloaded ledgers are read. A field's name with dashes is its key in the file.

    Attributes:
        read_priority: copy that is read first while both exist; the other copy is read after an error.
        endpoint: the store's address as seen from here, instead of the one that the brokers use.
        region: the store's region, instead of the brokers'.
        bucket: the store's bucket, instead of the brokers'.
        credentials_file: for S3 an ini file as of the AWS tools (section `default`), for Azure one with azure_storage_account and
            azure_storage_access_key there, for Google a service account's JSON; read again when it changes.
        filesystem_root: mount point of the filesystem driver's file system, instead of the brokers' path.
        read_size: bytes of one request, at least 64 KiB.
        cache_size: bytes of objects kept in memory.
        request_timeout: seconds for one request, with its retries.
    """

    read_priority: str = TIERED_STORAGE_FIRST
    endpoint: str = ""
    region: str = ""
    bucket: str = ""
    credentials_file: Path | None = None
    filesystem_root: Path | None = None
    read_size: int = 1 << 20
    cache_size: int = 64 << 20
    request_timeout: float = 30.0


def parse_tiered_config(value: object, size: Callable[[object], int]) -> TieredConfig:
    """The configuration from what the file has below `tiered-storage`.

    Args:
        value: what is there.
        size: reads a size as 64MiB; may raise a ValueError of its own.

    Raises:
        TieredConfigError: not a mapping, an unknown key, or a value that is not what it should be.
    """
    keys = tuple(field.name.replace("_", "-") for field in fields(TieredConfig))
    if not isinstance(value, dict):
        raise TieredConfigError(f"must be a mapping with keys of {', '.join(keys)}")
    unknown = sorted(str(key) for key in value if key not in keys)
    if unknown:
        raise TieredConfigError(f"unknown key {unknown[0]!r}; known are {', '.join(keys)}")
    parsers: Mapping[str, Callable[[object], Any]] = {
        "read-priority": _priority,
        "endpoint": _endpoint,
        "region": _text,
        "bucket": _text,
        "credentials-file": lambda found: Path(_text(found)),
        "filesystem-root": _absolute,
        "read-size": size,
        "cache-size": size,
        "request-timeout": _seconds,
    }
    settings = {}
    for key, found in value.items():
        try:
            settings[key.replace("-", "_")] = parsers[key](found)
        except ValueError as error:
            raise TieredConfigError(f"{key}: {error}") from error
    config = TieredConfig(**settings)
    if config.read_size < MIN_READ_BYTES:
        raise TieredConfigError(f"read-size: {config.read_size} would be at least 64KiB")
    if config.cache_size < 4 * config.read_size:
        raise TieredConfigError(
            f"cache-size: {config.cache_size} would be at least four times the read-size {config.read_size}"
        )
    return config


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise TieredConfigError("must be a text")
    return value


def _priority(value: object) -> str:
    if value not in PRIORITIES:
        raise TieredConfigError(f"{value!r} would be one of {', '.join(PRIORITIES)}")
    return str(value)


def _endpoint(value: object) -> str:
    text = _text(value)
    if not text.startswith(("http://", "https://")):
        raise TieredConfigError(f"{text!r} would be http://HOST:PORT or https://HOST")
    return text.rstrip("/")


def _absolute(value: object) -> Path:
    path = Path(_text(value))
    if not path.is_absolute():
        raise TieredConfigError(f"{str(value)!r} would be an absolute path")
    return path


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 600:
        raise TieredConfigError(f"{value!r} would be seconds, above 0 and up to 600")
    return float(value)
