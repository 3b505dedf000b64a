"""Forms of the output: a line of text, a JSON object, or the raw bytes of a value."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from readonly_engine.tool.start import show_time
from readonly_engine.wire.message_pb2 import NONE, CompressionType

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_engine.tool.messages import Item

SHOWN_BYTES = 64
"""Bytes of a binary value that a line of text shows."""


def as_text(item: Item) -> bytes:
    """Return one line: id, partition, publish time, key, properties, value."""
    words = [item.id]
    if item.partition >= 0:
        words.append(f"p{item.partition}")
    if item.stored is not None:
        words.append(show_time(item.stored.metadata.publish_time))
    if item.message is None:
        words.append(f"({item.note})")
    else:
        if item.note:
            words.append(f"({item.note})")
        if item.message.key is not None:
            words.append(f"key={_readable(item.message.key)}")
        words += [f"{escaped(name)}={escaped(value)}" for name, value in item.message.properties]
        words.append("(no value)" if item.message.value is None else _readable(item.message.value))
    return " ".join(words).encode() + b"\n"


def as_json(item: Item) -> bytes:
    """Return one JSON object on one line. Bytes that are not UTF-8 have the key NAME_base64."""
    fields: dict[str, Any] = {
        "id": item.id, "ledger": item.position.ledger_id, "entry": item.position.entry_id,
    }  # fmt: skip
    if item.partition >= 0:
        fields["partition"] = item.partition
    if item.stored is not None:
        fields |= _entry_fields(item)
    if item.message is not None:
        message = item.message
        if message.batch_index >= 0:
            fields["batch_index"] = message.batch_index
        fields |= _bytes_field("key", message.key) if message.key is not None else {}
        fields |= _bytes_field("ordering_key", message.ordering_key) if message.ordering_key is not None else {}
        fields["properties"] = dict(message.properties)
        fields["sequence_id"] = message.sequence_id
        if message.event_time:
            fields["event_time"] = message.event_time
        fields |= _bytes_field("value", message.value)
    if item.note:
        fields["note"] = item.note
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"


def as_raw(item: Item) -> bytes:
    """Return the value's bytes alone; nothing for an item without a message."""
    return b"" if item.message is None or item.message.value is None else item.message.value


FORMATS: dict[str, Callable[[Item], bytes]] = {"text": as_text, "json": as_json, "raw": as_raw}


def _entry_fields(item: Item) -> dict[str, Any]:
    assert item.stored is not None
    metadata = item.stored.metadata
    fields: dict[str, Any] = {"publish_time": metadata.publish_time, "producer": str(metadata.producer_name)}
    if item.stored.broker_timestamp:
        fields["broker_time"] = item.stored.broker_timestamp
    if item.stored.index >= 0:
        fields["index"] = item.stored.index
    if metadata.compression != NONE:
        fields["compression"] = CompressionType.Name(metadata.compression)
    if metadata.schema_version:
        fields["schema_version"] = metadata.schema_version.hex()
    if metadata.deliver_at_time:
        fields["deliver_at"] = metadata.deliver_at_time
    if metadata.HasField("txnid_most_bits"):
        fields["transaction"] = f"{metadata.txnid_most_bits}:{metadata.txnid_least_bits}"
    if metadata.replicated_from:
        fields["replicated_from"] = str(metadata.replicated_from)
    if item.stored.chunk:
        fields |= {"chunk": metadata.chunk_id, "chunks": metadata.num_chunks_from_msg, "uuid": str(metadata.uuid)}
    return fields


def _bytes_field(name: str, value: bytes | None) -> dict[str, str | None]:
    if value is None:
        return {name: None}
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value).decode()}


def _readable(value: bytes) -> str:
    try:
        return escaped(value.decode())
    except UnicodeDecodeError:
        more = f"... ({len(value)} bytes)" if len(value) > SHOWN_BYTES else ""
        return f"0x{value[:SHOWN_BYTES].hex()}{more}"


def escaped(text: str) -> str:
    """Escape control characters as Python does, so that a text stays on its line and cannot control the terminal."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
