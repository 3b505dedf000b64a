"""Kinds of values that several options have: texts, files, addresses, URLs, sizes, counts, mappings."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar
from urllib.parse import urlsplit

from readonly_engine.config.option import Kind, check_keys, read_options
from readonly_engine.config.yaml_file import YamlFileError, parse_yaml

if TYPE_CHECKING:
    from collections.abc import Callable

E = TypeVar("E", bound=StrEnum)
T = TypeVar("T")

_SIZE: Final = re.compile(r"([0-9]{1,18})(B|KiB|MiB|GiB|Ki|Mi|Gi)?")
"""Ki, Mi and Gi are the forms of Kubernetes, as in the fields of a pool."""

_BYTES: Final = {"GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10, "B": 1}
_LOCALITY: Final = re.compile(r"(/[^/\s]+)+")
_URL_HOST: Final = r"([^/,\s@]+@)?([^/:,\s\[\]]+|\[[0-9A-Fa-f:.]+(%[^\]/,\s]+)?\])(:[0-9]{1,5})?"
_ADDRESS: Final = r"\S+:[0-9]{1,5}"
MAX_PORT: Final = 65535
MAX_SECONDS: Final = 600.0


class Address(NamedTuple):
    """A host and a port of this machine."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def read_text(value: object) -> str | None:
    """Return a text that is not empty; None for another value."""
    return value if isinstance(value, str) and value else None


def read_texts(value: object) -> tuple[str, ...] | None:
    """Return a list of texts that are not empty; None for another value."""
    if not isinstance(value, (list, tuple)) or any(read_text(item) is None for item in value):
        return None
    return tuple(value)


def is_locality(text: str) -> bool:
    """Return whether a text is /RACK or /ZONE/RACK, or has more levels."""
    return _LOCALITY.fullmatch(text) is not None


def split_urls(url: str) -> tuple[str, ...]:
    """Return one URL for each host of a URL with several, as in a service URL of Pulsar."""
    scheme, _, hosts = url.partition("://")
    return tuple(f"{scheme}://{host}" for host in hosts.split(","))


def _is_url(text: str, scheme: str) -> bool:
    """Return whether a text has the form of the schema, and a valid port. urlsplit alone takes blanks and queries."""
    if re.fullmatch(rf"{re.escape(scheme)}://{_URL_HOST}/?", text) is None:
        return False
    try:
        parts = urlsplit(text)
        return parts.scheme == scheme and bool(parts.hostname) and (parts.port or 1) > 0 and parts.path in {"", "/"}
    except ValueError:
        return False


def _read_path(value: object) -> Path | None:
    text = read_text(value)
    return None if text is None else Path(text)


def _read_absolute_path(value: object) -> Path | None:
    path = _read_path(value)
    return path if path is not None and path.is_absolute() else None


def _read_boolean(value: object) -> bool | None:
    if isinstance(value, bool):
        return value
    return value == "true" if value in ("true", "false") else None


def _read_address(value: object) -> Address | None:
    text = read_text(value) or ""
    host, _, port = text.rpartition(":")
    if re.fullmatch(_ADDRESS, text) is None or int(port) > MAX_PORT:
        return None
    return Address(host.strip("[]"), int(port))


def _digits(value: object) -> str:
    return str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else ""


def _read_size(value: object) -> int | None:
    match = _SIZE.fullmatch(_digits(value))
    return None if match is None else int(match[1]) * _BYTES[f"{(match[2] or '').removesuffix('B')}B"]


def write_size(size: int) -> str:
    """Return a size in the largest unit without a fraction, for example 256MiB."""
    unit = next((unit for unit, factor in _BYTES.items() if size and size % factor == 0), "B")
    return f"{size // _BYTES[unit]}{unit}"


def _read_count(value: object) -> int | None:
    text = _digits(value)
    return int(text) if re.fullmatch("[0-9]{1,18}", text) else None


def _read_seconds(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= MAX_SECONDS:
        return None
    return float(value)


def _read_locality(value: object) -> str | None:
    text = read_text(value)
    return text if text is not None and is_locality(text) else None


def _read_endpoint(value: object) -> str | None:
    text = read_text(value) or ""
    return text.rstrip("/") if text.startswith(("http://", "https://")) else None


def _texts(pattern: str) -> dict[str, Any]:
    """Return the JSON Schema of texts that match an expression as a whole."""
    return {"type": "string", "pattern": f"^({pattern})$"}


def _whole(least: int = 0, most: int = 10**18 - 1) -> dict[str, Any]:
    """Return the JSON Schema of whole numbers in a range."""
    return {"type": "integer", "minimum": least, "maximum": most}


_LISTS: Final = {"type": "array", "items": {"type": "string", "minLength": 1}}
_COUNTS: Final = {"anyOf": [_whole(), _texts("[0-9]{1,18}")]}

TEXT: Final = Kind("TEXT", "a non-empty text", read_text)
NAME: Final = Kind("NAME", "a non-empty text", read_text)
FILE: Final = Kind("FILE", "the path of a file", _read_path)
FOLDER: Final = Kind("PATH", "an absolute path", _read_absolute_path, schema=_texts("/.*"))
BOOLEAN: Final = Kind(
    "true|false",
    "true or false",
    _read_boolean,
    lambda value: str(value).lower(),
    schema={"enum": [True, False, "true", "false"]},
)
ADDRESS: Final = Kind("HOST:PORT", "HOST:PORT", _read_address, schema=_texts(_ADDRESS))
SIZE: Final = Kind(
    "SIZE",
    "a size such as 64MiB or 1GiB",
    _read_size,
    write_size,
    schema={"anyOf": [_whole(), _texts(r"[0-9]{1,18}(B|KiB|MiB|GiB|Ki|Mi|Gi)?")]},
)
COUNT: Final = Kind("N", "a whole number of 0 or more", _read_count, schema=_COUNTS)
LIMIT: Final = Kind("N", "a whole number, 0 for no limit", _read_count, schema=_COUNTS)
SECONDS: Final = Kind(
    "SECONDS",
    f"a number of seconds above 0, at most {MAX_SECONDS:g}",
    _read_seconds,
    schema={"type": "number", "exclusiveMinimum": 0, "maximum": MAX_SECONDS},
)
ENDPOINT: Final = Kind(
    "http[s]://HOST[:PORT]", "http://HOST:PORT or https://HOST", _read_endpoint, schema=_texts("https?://.*")
)
LOCALITY: Final = Kind(
    "/ZONE/RACK",
    "/RACK or /ZONE/RACK (as in pulsar-admin bookies set-bookie-rack)",
    _read_locality,
    schema=_texts(_LOCALITY.pattern),
)


def url(*schemes: str) -> Kind[str]:
    """Return the kind of URLs with one of these schemes and one host."""

    def read(value: object) -> str | None:
        text = read_text(value) or ""
        return text.rstrip("/") if any(_is_url(text, scheme) for scheme in schemes) else None

    form = " or ".join(f"{scheme}://HOST:PORT" for scheme in schemes)
    pattern = "|".join(re.escape(scheme) for scheme in schemes)
    pattern = f"({pattern})" if len(schemes) > 1 else pattern
    return Kind(f"{schemes[0]}://HOST:PORT", form, read, schema=_texts(rf"{pattern}://{_URL_HOST}/?"))


def urls(plain: str, encrypted: str) -> Kind[str]:
    """Return the kind of URLs with one of two schemes and one or more hosts, as in a service URL of Pulsar."""
    suffix = encrypted.removeprefix(plain)
    hosts = "://HOST:PORT[,HOST:PORT...]"

    def read(value: object) -> str | None:
        text = (read_text(value) or "").rstrip("/")
        scheme = text.partition("://")[0]
        good = (
            scheme in {plain, encrypted} and "/," not in text and all(_is_url(one, scheme) for one in split_urls(text))
        )
        return text if good else None

    schema = _texts(rf"({re.escape(plain)}|{re.escape(encrypted)})://{_URL_HOST}(,{_URL_HOST})*/?")
    return Kind(f"{plain}[{suffix}]{hosts}", f"{plain}{hosts} or {encrypted}{hosts}", read, schema=schema)


def number_between(least: int, most: int, advice: str) -> Kind[int]:
    """Return the kind of whole numbers in a range; the advice ends the error."""

    def read(value: object) -> int | None:
        found = _read_count(value)
        return found if found is not None and least <= found <= most else None

    schema = {"anyOf": [_whole(least, most), _texts("[0-9]{1,18}")]}
    return Kind("N", f"a number from {least} to {most}, {advice}", read, schema=schema)


def choice_of(*values: str) -> Kind[str]:
    """Return the kind of these texts."""

    def read(value: object) -> str | None:
        return str(value) if value in values else None

    return Kind(" or ".join(values), f"one of {', '.join(values)}", read, choices=values)


def member_of(enumeration: type[E]) -> Kind[E]:
    """Return the kind of an enumeration's members."""
    values = tuple(member.value for member in enumeration)

    def read(value: object) -> E | None:
        return enumeration(str(value)) if value in values else None

    return Kind(" or ".join(values), f"one of {', '.join(values)}", read, choices=values)


def list_of(form: str, what: str) -> Kind[tuple[str, ...]]:
    """Return the kind of lists of texts, which are separate arguments on the command line."""
    return Kind(form, f"a list of {what}", read_texts, write=", ".join, several=True, schema=_LISTS)


def mapping_of(
    declaring: type[T],
    form: str,
    example: str,
    check: Callable[[T], None] | None = None,
    *,
    empty: bool = True,
    required: tuple[str, ...] = (),
) -> Kind[T]:
    """Return the kind of mappings that a dataclass declares, or of texts that are such mappings in YAML.

    Args:
        declaring: the dataclass, of which each field is an option.
        form: the form in help.
        example: a valid mapping, for errors.
        check: raises ConfigError where values contradict each other.
        empty: whether a mapping without keys is valid.
        required: keys without which `check` fails, for the JSON Schema.
    """

    def read(value: object) -> T | None:
        document: Any = value
        if isinstance(value, str):
            try:
                document = parse_yaml(value)
            except YamlFileError:
                return None
        if not isinstance(document, dict) or (not document and not empty):
            return None
        check_keys(declaring, document)
        found = declaring(**read_options(declaring, document))
        if check is not None:
            check(found)
        return found

    rules: dict[str, Any] = {} if empty else {"minProperties": 1}
    if required:
        rules["required"] = list(required)
    return Kind(form, f"a mapping such as {example}", read, write=lambda _: "", declaring=declaring, rules=rules)


def comma_separated(read: Callable[[tuple[str, ...]], T], form: str, what: str) -> Kind[T]:
    """Return the kind of lists that may also be a text with commas, as in Pulsar's broker.conf.

    Args:
        read: converts the items; raises ConfigError.
        form: the form in help.
        what: the items, for errors.
    """

    def read_items(value: object) -> T | None:
        items = read_texts(value.split(",") if isinstance(value, str) else value)
        return None if items is None else read(items)

    schema = {"anyOf": [{"type": "string", "minLength": 1}, _LISTS]}
    return Kind(form, f"a list of {what}", read_items, write=lambda _: "", schema=schema)
