"""Values of the options that name no position: numbers, sizes, paths, words. Pure."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

from readonly_engine.metadata.security import LoginScheme

from readonly_spark.position_options import LATEST

RAW: Final = "raw"
AUTO: Final = "auto"

ERROR: Final = "error"

FAIL: Final = "fail"
NULL: Final = "null"

_SIZE: Final = re.compile(r"([1-9][0-9]{0,14})(|[KMGT]i?B?|B)", re.IGNORECASE)
_UNITS: Final = {"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}

BATCH_BYTES: Final = (64 << 10, 256 << 20)
"""Minimum and maximum of `batchBytes`: a column of one record batch must stay below 2 GiB."""


def parse_size(text: str) -> int:
    """Parse a number of bytes such as 1048576, 64MiB or 2g.

    Raises:
        ValueError: the text is malformed.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} must be a number of bytes above 0, such as 67108864 or 64MiB")
    return int(match[1]) * _UNITS[match[2][:1].upper()]


def parse_count(text: str) -> int:
    """Parse a number above 0.

    Raises:
        ValueError: the text is malformed.
    """
    if not re.fullmatch("[1-9][0-9]{0,14}", text.strip()):
        raise ValueError(f"{text!r} must be a number above 0")
    return int(text)


def parse_seconds(text: str) -> float:
    """Parse a number of seconds, 0 or more.

    Raises:
        ValueError: the text is malformed.
    """
    if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,3})?", text.strip()):
        raise ValueError(f"{text!r} must be a number of seconds, 0 or more")
    return float(text)


def parse_bool(text: str) -> bool:
    """Parse true or false.

    Raises:
        ValueError: the text is malformed.
    """
    if text.strip().lower() not in {"true", "false"}:
        raise ValueError(f"{text!r} must be true or false")
    return text.strip().lower() == "true"


def parse_batch_bytes(text: str) -> int:
    """Parse the size of a record batch.

    Raises:
        ValueError: the text is malformed.
    """
    size = parse_size(text)
    if not BATCH_BYTES[0] <= size <= BATCH_BYTES[1]:
        raise ValueError(f"{text!r} must be from 64KiB to 256MiB")
    return size


def parse_strategy(text: str) -> str:
    """Parse the strategy of a start by time: LATEST or ERROR.

    Raises:
        ValueError: the text is malformed.
    """
    if text.strip().lower() not in {LATEST, ERROR}:
        raise ValueError(f"{text!r} must be {LATEST} or {ERROR}")
    return text.strip().lower()


def parse_value_schema(text: str) -> str:
    """Parse `raw`, `auto`, or the JSON of a schema.

    Raises:
        ValueError: the text is malformed.
    """
    if text.strip().lower() in {RAW, AUTO}:
        return text.strip().lower()
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or "type" not in found:
        raise ValueError(f'{text[:60]!r} must be raw, auto, or JSON as {{"type": "AVRO", "schema": {{...}}}}')
    return text


def parse_decode_errors(text: str) -> str:
    """Parse the action on errors of decoding: FAIL or NULL.

    Raises:
        ValueError: the text is malformed.
    """
    if text.strip().lower() not in {FAIL, NULL}:
        raise ValueError(f"{text!r} must be {FAIL} or {NULL}")
    return text.strip().lower()


def parse_subscription(text: str) -> str:
    """Parse the name of a subscription.

    Raises:
        ValueError: the text is malformed.
    """
    if not text.strip() or text.startswith("__"):
        raise ValueError(f"{text!r} must be the name of a subscription")
    return text.strip()


def parse_admin_urls(text: str) -> tuple[str, ...]:
    """Parse addresses of the admin API, separated by commas.

    Raises:
        ValueError: the text is malformed.
    """
    urls = tuple(url.strip() for url in text.split(","))
    for url in urls:
        if not re.fullmatch(r"https?://[^\s/@]+/?", url):
            raise ValueError(f"{url!r} must be as http://HOST:PORT or https://HOST:PORT")
    return urls


def parse_login_scheme(text: str) -> LoginScheme:
    """Parse the scheme of a login at ZooKeeper.

    Raises:
        ValueError: the text is malformed.
    """
    if text.strip().lower() not in set(LoginScheme):
        raise ValueError(f"{text!r} must be {' or '.join(LoginScheme)}")
    return LoginScheme(text.strip().lower())


def parse_path(text: str) -> Path:
    """Parse an absolute path.

    Raises:
        ValueError: the text is malformed.
    """
    if not text.startswith("/"):
        raise ValueError(f"{text!r} must be an absolute path")
    return Path(text)
