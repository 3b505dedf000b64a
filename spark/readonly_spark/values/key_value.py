"""Schemas of two parts, key and value, and their bytes (KeyValueSchemaInfo, KeyValue of Pulsar's client). Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from readonly_engine.wire.errors import MalformedFrameError

if TYPE_CHECKING:
    from collections.abc import Mapping

KEY_VALUE: Final = "KEY_VALUE"

KEY: Final = "key"
VALUE: Final = "value"
"""Names of the fields of a decoded value."""

ENCODING: Final = "kv.encoding.type"
INLINE: Final = "INLINE"
SEPARATED: Final = "SEPARATED"
"""Where the key is stored: before the value in the payload, or as the key of the message."""

_SIZE_BYTES: Final = 4
_EMPTY_BYTES: Final = 2 * _SIZE_BYTES
_NONE: Final = -1


@dataclass(frozen=True, slots=True)
class Part:
    """The schema of one part.

    Attributes:
        kind: the name of its SchemaType.
        text: the definition.
        properties: its properties.
    """

    kind: str
    text: bytes
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class KeyValueSchema:
    """Both parts.

    Attributes:
        key: the key's schema.
        value: the value's schema.
        separated: whether the key is the key of the message.
    """

    key: Part
    value: Part
    separated: bool


def parse_key_value(text: bytes, properties: Mapping[str, str]) -> KeyValueSchema:
    """Parse a stored schema.

    Args:
        text: both definitions, each after its length.
        properties: the kind and the properties of each part, and the encoding.

    Raises:
        MalformedFrameError: the definition is malformed.
        KeyError: a property is missing.
        ValueError: a property is malformed.
    """
    key, value = split_pair(text)
    encoding = properties.get(ENCODING, INLINE)
    if encoding not in {INLINE, SEPARATED}:
        raise ValueError(f"{ENCODING} is {encoding!r}; it must be {INLINE} or {SEPARATED}")

    def schema_of(name: str, definition: bytes | None) -> Part:
        more = json.loads(properties.get(f"{name}.schema.properties") or "{}")
        return Part(properties[f"{name}.schema.type"], definition or b"", more)

    return KeyValueSchema(schema_of(KEY, key), schema_of(VALUE, value), encoding == SEPARATED)


def format_key_value(schema: KeyValueSchema) -> tuple[bytes, dict[str, str]]:
    """Return the stored definition and properties."""
    properties = {ENCODING: SEPARATED if schema.separated else INLINE}
    for name, part in ((KEY, schema.key), (VALUE, schema.value)):
        properties[f"{name}.schema.type"] = part.kind
        properties[f"{name}.schema.properties"] = json.dumps(dict(part.properties))
    return join_pair(schema.key.text, schema.value.text), properties


def split_pair(payload: bytes) -> tuple[bytes | None, bytes | None]:
    """Return key and value of an inline payload; None for null.

    Raises:
        MalformedFrameError: the lengths do not fit.
    """
    found: list[bytes | None] = []
    at = 0
    for _ in range(2):
        if len(payload) < at + _SIZE_BYTES:
            raise MalformedFrameError("a key-value pair that is too short")
        size = int.from_bytes(payload[at : at + _SIZE_BYTES], "big", signed=True)
        at += _SIZE_BYTES
        if size < _NONE or at + size > len(payload):
            raise MalformedFrameError(f"a key-value pair with a length of {size}, of {len(payload)} bytes")
        found.append(None if size == _NONE else payload[at : at + size])
        at += max(size, 0)
    return found[0], found[1]


def message_pair(
    separated: bool, message_key: bytes | None, payload: bytes | None
) -> tuple[bytes | None, bytes | None] | None:
    """Return key and value of a message; None if it has neither.

    Pulsar's registry compares type and definition of schemas, not their properties (tried with 4.0.8). So producers of both
    encodings share a version, with the encoding of the first one. A message shows its own: a separated one has a key, unless
    this is null, and an inline payload is as long as its lengths say.

    Args:
        separated: the encoding of the version.
        message_key: the key of the message.
        payload: its payload.

    Raises:
        MalformedFrameError: the message has no key, and its payload is not a pair.
    """
    if payload is None:
        return (message_key, None) if separated and message_key is not None else None
    if separated:
        # A null key leaves none either, and then numbers may look like a pair whose key is empty, or both parts null.
        inline = (
            message_key is None and len(payload) > _EMPTY_BYTES and any(payload[:_SIZE_BYTES]) and _is_pair(payload)
        )
    else:
        inline = message_key is None or _is_pair(payload)
    return split_pair(payload) if inline else (message_key, payload)


def _is_pair(payload: bytes) -> bool:
    try:
        return join_pair(*split_pair(payload)) == payload
    except MalformedFrameError:
        return False


def join_pair(key: bytes | None, value: bytes | None) -> bytes:
    """Return the inline payload of a key and a value."""
    return b"".join(
        (_NONE if part is None else len(part)).to_bytes(_SIZE_BYTES, "big", signed=True) + (part or b"")
        for part in (key, value)
    )
