"""The option `tiered-storage`: where and how offloaded ledgers are read.

The metadata store has the brokers' driver, bucket, region and endpoint beside each offloaded ledger. A key of this option
replaces one of them. The metadata store never has credentials; they come from a file or from the environment.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from readonly_engine.config.kinds import ENDPOINT, FILE, FOLDER, SECONDS, SIZE, TEXT, choice_of, mapping_of
from readonly_engine.config.option import NO_FIELD, ConfigError, option

if TYPE_CHECKING:
    from pathlib import Path

TIERED_STORAGE_FIRST: Final = "tiered-storage-first"
BOOKKEEPER_FIRST: Final = "bookkeeper-first"

MIN_READ_BYTES: Final = 64 << 10
MIN_CACHED_READS: Final = 4
"""Reads that the cache must have room for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TieredConfig:
    """Settings for reading offloaded ledgers. Each field is a key of `tiered-storage`, with dashes."""

    read_priority: str = field(
        default=TIERED_STORAGE_FIRST,
        metadata=option(
            choice_of(TIERED_STORAGE_FIRST, BOOKKEEPER_FIRST),
            "copy that is read first while both exist, as the brokers' managedLedgerDataReadPriority; the other copy is read "
            "after an error",
            field="tieredStorage.readPriority",
        ),
    )
    endpoint: str = field(
        default="",
        metadata=option(
            ENDPOINT,
            "address of the store as seen from here, instead of the one that the brokers use",
            field="tieredStorage.endpoint",
        ),
    )
    region: str = field(
        default="", metadata=option(TEXT, "region of the store, instead of the brokers'", field="tieredStorage.region")
    )
    bucket: str = field(
        default="", metadata=option(TEXT, "bucket, instead of the brokers'", field="tieredStorage.bucket")
    )
    credentials_file: Path | None = field(
        default=None,
        metadata=option(
            FILE,
            "credentials, read again when the file changes: for S3 an ini file as of the AWS tools (section `default`), for "
            "Azure one with azure_storage_account and azure_storage_access_key there, for Google a service account's JSON",
            field="tieredStorage.credentials",
        ),
    )
    filesystem_root: Path | None = field(
        default=None,
        metadata=option(
            FOLDER,
            "mount point of the filesystem driver's file system, instead of the brokers' path",
            field="tieredStorage.filesystemRoot",
        ),
    )
    read_size: int = field(
        default=1 << 20, metadata=option(SIZE, "size of one request, at least 64KiB", unit="bytes", field=NO_FIELD)
    )
    cache_size: int = field(
        default=64 << 20,
        metadata=option(
            SIZE,
            "memory for parts of objects, at least four times the read-size",
            unit="bytes",
            field="tieredStorage.cacheSize",
        ),
    )
    request_timeout: float = field(
        default=30.0,
        metadata=option(SECONDS, "deadline of one request, with its retries", unit="seconds", field=NO_FIELD),
    )


def check_tiered_config(config: TieredConfig) -> None:
    """Check the sizes.

    Raises:
        ConfigError: one is too small.
    """
    if config.read_size < MIN_READ_BYTES:
        raise ConfigError(f"read-size: must be at least 64KiB, not {config.read_size}")
    if config.cache_size < MIN_CACHED_READS * config.read_size:
        raise ConfigError(
            f"cache-size: must be at least four times the read-size {config.read_size}, not {config.cache_size}"
        )


TIERED_STORAGE: Final = mapping_of(
    TieredConfig, "{KEY: VALUE, ...}", "{read-priority: bookkeeper-first}", check_tiered_config
)
