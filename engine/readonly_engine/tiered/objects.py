"""Ranges of objects, from an object store or a file system."""

from __future__ import annotations

import asyncio
import os
import re
from typing import TYPE_CHECKING, Protocol

from obstore.exceptions import BaseError, NotFoundError, PermissionDeniedError, UnauthenticatedError

from readonly_engine.tiered.errors import ObjectMissingError, StoreUnavailableError

if TYPE_CHECKING:
    from pathlib import Path

    from obstore.store import ObjectStore

_MAX_REASON = 200


class Objects(Protocol):
    """A store of objects."""

    async def read(self, key: str, start: int, end: int) -> bytes | memoryview:
        """Return the bytes of an object from `start` to before `end`; fewer at the end of the object.

        Raises:
            TieredStorageError: the object does not exist or cannot be read.
        """
        ...


class Bucket:
    """A bucket of an object store.

    Args:
        store: the bucket.
        where: description for errors, without secrets.
        timeout_s: deadline of one read with its retries.
    """

    def __init__(self, store: ObjectStore, where: str, timeout_s: float) -> None:
        self._store = store
        self._where = where
        self._timeout_s = timeout_s

    async def read(self, key: str, start: int, end: int) -> memoryview:
        """See Objects."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return memoryview(await self._store.get_range_async(key, start=start, end=end))
        except (NotFoundError, FileNotFoundError) as error:
            if _code(error) == "NoSuchBucket":
                raise ObjectMissingError(
                    f"{self._where} does not exist: tiered-storage.bucket, or managedLedgerOffloadBucket of the brokers, names it"
                ) from None
            raise ObjectMissingError(f"{self._where} has no object {key}") from None
        except (PermissionDeniedError, UnauthenticatedError, PermissionError) as error:
            raise StoreUnavailableError(
                f"{self._where} refuses {key} ({_code(error) or 'no reason given'}): "
                "see the credentials in tiered-storage.credentials-file or the environment"
            ) from None
        except TimeoutError:
            raise StoreUnavailableError(f"{self._where} did not return {key} within {self._timeout_s:g} s") from None
        except (BaseError, OSError, ValueError) as error:
            raise StoreUnavailableError(f"{self._where}, {key}: {_reason(error)}") from None


class Folder:
    """A folder of a file system.

    Args:
        root: the folder.
        where: description of the setting that names it, for errors.
        timeout_s: deadline of one read.
    """

    def __init__(self, root: Path, where: str, timeout_s: float) -> None:
        self._root = root
        self._where = where
        self._timeout_s = timeout_s

    async def read(self, key: str, start: int, end: int) -> bytes:
        """See Objects."""
        path = self._root / key
        try:
            async with asyncio.timeout(self._timeout_s):
                return await asyncio.to_thread(_pread, path, start, end)
        except (FileNotFoundError, NotADirectoryError):
            raise ObjectMissingError(f"there is no file {path}; {self._where}") from None
        except TimeoutError:
            raise StoreUnavailableError(f"{path} was not read within {self._timeout_s:g} s; {self._where}") from None
        except OSError as error:
            raise StoreUnavailableError(f"{path}: {error.strerror}; {self._where}") from None


def _pread(path: Path, start: int, end: int) -> bytes:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        pieces = []
        while start < end and (piece := os.pread(handle, end - start, start)):
            pieces.append(piece)
            start += len(piece)
        return b"".join(pieces)
    finally:
        os.close(handle)


def _code(error: Exception) -> str:
    """Return the store's code of an error. The rest of its answer can quote access keys and signatures."""
    found = re.search(r"<Code>(\w{1,80})</Code>", str(error))
    return found[1] if found else ""


def _reason(error: Exception) -> str:
    code = _code(error)
    if code:
        return code
    text = str(error).partition("Debug source")[0]
    return re.sub(r"<.*", "", " ".join(text.split()))[:_MAX_REASON]
