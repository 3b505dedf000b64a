"""Forms of log lines that the option log-format selects: text, or one JSON object for each line. Secrets are hidden in both.

A message is a constant text with fields: `log.info("entry still unreadable: topic=%s error=%s", topic, error)`. A JSON line has
each field as a key too. The keys come from the constant text and never from values, so no value can add or replace a key.
"""

from __future__ import annotations

import json
import logging
import math
import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

HIDDEN: Final = "***"

RESERVED: Final = frozenset({"time", "level", "logger", "message", "exception", "worker"})
"""Keys of every line, which no field replaces."""

MAX_FIELD: Final = 4096
"""Characters of a field; the rest is left out. Clients choose some names."""

MAX_TEXT: Final = 16384
"""Characters of a message, and of an exception; the rest is left out."""

_MAX_TEMPLATES: Final = 1024
_USER_IN_URL: Final = re.compile(r"(://)[^/\s]+@")
# Clients choose texts of logs, so the time must be linear: a token begins only where a run of its characters begins, and no
# quantifier gives characters back. With \b before it, 8 KiB of "eyJ-" took 0.3 s, and 80 KiB took 221 s (measured).
_TOKEN: Final = re.compile(r"(\b(?i:bearer)\s++)\S++|(?<![\w-])eyJ[\w-]{8,}+\.[\w-]++(?:\.[\w-]*+)?")
_CONTROLS: Final = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))} | {
    ord("\n"): r"\n",
    ord("\r"): r"\r",
    ord("\t"): r"\t",
    0x2028: r"\u2028",
    0x2029: r"\u2029",
}
"""Characters that begin a line, or control a terminal, with their escapes."""
_PLACEHOLDER: Final = re.compile(
    r"(?:(?<![\w.])([a-z][a-z0-9_]*)=)?"  # name of the field
    r"%(?:\((\w+)\))?[-#0 +]*(\*|\d+)?(?:\.(\*|\d+)?)?[hlL]?([diouxXeEfFgGcrsa%])"
)


def redact(text: str) -> str:
    """Return a text without users and passwords in URLs, and without tokens."""
    if "://" in text:
        text = _USER_IN_URL.sub(rf"\1{HIDDEN}@", text)
    return _TOKEN.sub(lambda found: f"{found[1] or ''}{HIDDEN}", text)


def _bounded(text: str, limit: int) -> str:
    """Return a redacted text of at most `limit` characters, and an ellipsis where it is cut.

    It is redacted before the cut, because a part of a secret is not recognized. What is far behind the cut costs no time.
    """
    cut = len(text) > 2 * limit
    if cut:
        text = text[: 2 * limit]
        text = text[: text.rfind(" ")] if " " in text else text  # the last word may be a part of a secret
    text = redact(text)
    return f"{text[:limit]}..." if cut or len(text) > limit else text


def _bounded_end(text: str, limit: int) -> str:
    """Return the redacted end of a text, which has the error of a traceback. As `_bounded` otherwise."""
    found = redact(text[-2 * limit :])
    return f"...{found[-limit:]}" if len(text) > 2 * limit or len(found) > limit else found


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """Return the fields of a record's message: numbers and booleans as they are, other values as redacted texts."""
    if not record.args or not isinstance(record.msg, str):
        return {}
    found: dict[str, Any] = {}
    for name, key in _names(record.msg):
        if name not in RESERVED:
            try:
                found[name] = _value(record.args[key])  # type: ignore[index]
            except (KeyError, IndexError):
                return {}  # logging reports the mismatch itself
    return found


@lru_cache(maxsize=_MAX_TEMPLATES)
def _names(template: str) -> tuple[tuple[str, int | str], ...]:
    """Return the fields of a message's text, each with the index or the key of its argument."""
    found: list[tuple[str, int | str]] = []
    index = 0
    for match in _PLACEHOLDER.finditer(template):
        name, key, width, precision, conversion = match.groups()
        if conversion == "%":
            continue
        index += (width == "*") + (precision == "*")
        if name:
            found.append((name, key or index))
        index += 1
    return tuple(found)


def _value(value: object) -> object:
    if value is None or isinstance(value, (bool, int)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return _bounded(str(value), MAX_FIELD)


def _json(line: dict[str, Any]) -> str:
    """Return a line in ASCII. A half of a surrogate pair, which strict parsers refuse, becomes a question mark."""
    text = json.dumps(line, default=str)
    if "\\ud" in text:
        whole = json.dumps(line, default=str, ensure_ascii=False).encode("utf-8", "replace")
        text = json.dumps(json.loads(whole))
    return text


class JsonFormatter(logging.Formatter):
    """One JSON object for each record: time, level, logger, message, and the fields of the message.

    Args:
        constant: further keys of every line.
        of_record: returns further keys of a record.
    """

    def __init__(
        self,
        constant: Mapping[str, object] | None = None,
        of_record: Callable[[logging.LogRecord], Mapping[str, object]] = lambda _: {},
    ) -> None:
        super().__init__()
        self._constant = dict(constant or {})
        self._of_record = of_record

    def format(self, record: logging.LogRecord) -> str:
        """See logging.Formatter."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            **self._constant,
            "logger": record.name,
            "message": _bounded(record.getMessage(), MAX_TEXT),
            **self._of_record(record),
            **fields_of(record),
        }
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            line.setdefault("error", _value(f"{type(error).__name__}: {error}"))
            line["exception"] = _bounded_end(self.formatException(record.exc_info), MAX_TEXT)
        return _json(line)


class TextFormatter(logging.Formatter):
    """Lines of text, without secrets. A message is one line: control characters are escaped, so no value forges a line.

    Args:
        prefix: text before the logger's name.
    """

    def __init__(self, prefix: str = "") -> None:
        super().__init__(f"%(asctime)s %(levelname)-7s {prefix}%(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """See logging.Formatter."""
        record.message = record.getMessage()
        record.asctime = self.formatTime(record)
        text = _bounded(self.formatMessage(record), MAX_TEXT).translate(_CONTROLS)
        if record.exc_info and record.exc_info[1] is not None:
            text = f"{text}\n{_bounded_end(self.formatException(record.exc_info), MAX_TEXT)}"
        return text
