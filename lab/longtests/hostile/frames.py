"""Malformed frames of every command: commands of clients, and commands that only servers send. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from readonly_engine.wire import well_formed
from readonly_engine.wire.framing import FRAME_BYTES, LENGTH_BYTES
from readonly_engine.wire.pulsar_pb2 import BaseCommand
from readonly_engine.wire.varint import encode_varint

if TYPE_CHECKING:
    from google.protobuf.message import Message

_TYPES: Final = BaseCommand.DESCRIPTOR.enum_types_by_name["Type"].values_by_name

SERVER_COMMANDS: Final = (
    "CONNECTED", "SEND_RECEIPT", "SEND_ERROR", "MESSAGE", "SUCCESS", "ERROR", "PRODUCER_SUCCESS", "PARTITIONED_METADATA_RESPONSE",
    "LOOKUP_RESPONSE", "CONSUMER_STATS_RESPONSE", "REACHED_END_OF_TOPIC", "GET_LAST_MESSAGE_ID_RESPONSE",
    "ACTIVE_CONSUMER_CHANGE", "GET_TOPICS_OF_NAMESPACE_RESPONSE", "GET_SCHEMA_RESPONSE", "AUTH_CHALLENGE", "ACK_RESPONSE",
    "GET_OR_CREATE_SCHEMA_RESPONSE", "NEW_TXN_RESPONSE", "ADD_PARTITION_TO_TXN_RESPONSE", "ADD_SUBSCRIPTION_TO_TXN_RESPONSE",
    "END_TXN_RESPONSE", "END_TXN_ON_PARTITION_RESPONSE", "END_TXN_ON_SUBSCRIPTION_RESPONSE", "TC_CLIENT_CONNECT_RESPONSE",
    "WATCH_TOPIC_LIST_SUCCESS", "WATCH_TOPIC_UPDATE", "TOPIC_MIGRATED",
)  # fmt: skip
CLIENT_COMMANDS: Final = tuple(name for name in _TYPES if name not in SERVER_COMMANDS)
"""All other commands. A new command of the protocol counts as a client's until it is added above."""

MALFORMED: Final = {
    "cut": "cut in the middle",
    "inner-length": "its length exceeds the frame",
    "rest-missing": "the rest of the frame never comes",
    "oversized": "one byte over the limit",
    "unknown-fields": "unknown fields",
    "other-body": "body of another type",
    "no-fields": "no fields",
    "no-connect": "before CONNECT",
}
"""Kinds of malformed frames, with the heads of their columns. Unknown fields are allowed, and `no-connect` is well formed."""

_UNKNOWN: Final = encode_varint(5000 << 3 | 2) + b"\x03abc"
_ANNOUNCED_BYTES: Final = 1000
_SENT_BYTES: Final = 64 << 10

_STRINGS: Final = {"namespace": "public/default", "subscription": "s", "topics_pattern": "public/default/.*"}
_IDS: Final = {"SUBSCRIBE": ("consumer_id", 1), "PRODUCER": ("producer_id", 1)}
"""Ids for new consumers and producers. Number 0 exists already, for commands that name one."""


def make_command(name: str, topic: str) -> bytes:
    """Encode a well-formed command without lengths, with all required fields and ids.

    Args:
        name: name of its type.
        topic: value of its topic field, if it has one.
    """
    number = _TYPES[name].number
    field = BaseCommand.DESCRIPTOR.fields_by_number.get(number)
    if field is None or field.message_type is None:  # a command of coordinators, which begins with two ids
        return _tagged(number, b"\x08\x01\x10\x00")
    command = BaseCommand(type=number)
    body = getattr(command, field.name)
    body.SetInParent()
    _fill(body, topic)
    if name in _IDS:
        setattr(body, *_IDS[name])
    return command.SerializeToString()


def malformed(name: str, how: str, topic: str) -> bytes:
    """Encode a malformed frame of a command.

    Args:
        name: name of its type.
        how: a key of MALFORMED.
        topic: value of its topic field, if it has one.
    """
    command = make_command(name, topic)
    number = _TYPES[name].number
    match how:
        case "cut":
            return _frame(command[: len(command) // 2])
        case "inner-length":
            return _frame(command, inner=len(command) + _ANNOUNCED_BYTES)
        case "rest-missing":
            return _frame(command, total=LENGTH_BYTES + len(command) + _ANNOUNCED_BYTES)
        case "oversized":
            return _frame(command, total=FRAME_BYTES + 1) + bytes(_SENT_BYTES)
        case "unknown-fields":
            return _frame(_tagged(number, _body_of(command) + _UNKNOWN) + _UNKNOWN)
        case "other-body":
            other = _TYPES["FLOW" if name != "FLOW" else "SEND"].number
            return _frame(_tagged(number, b"\x08\x00\x10\x01", field=other))
        case "no-fields":
            return _frame(_tagged(number, b""))
        case "no-connect":
            return _frame(command)
        case _:
            raise ValueError(f"unknown malformation {how!r}")


def _frame(command: bytes, total: int | None = None, inner: int | None = None) -> bytes:
    total = LENGTH_BYTES + len(command) if total is None else total
    inner = len(command) if inner is None else inner
    return total.to_bytes(LENGTH_BYTES, "big") + inner.to_bytes(LENGTH_BYTES, "big") + command


def _tagged(number: int, body: bytes, field: int | None = None) -> bytes:
    """Encode a command of a type with a body, by default in the field of that type."""
    tag = encode_varint((number if field is None else field) << 3 | 2)
    return b"\x08" + encode_varint(number) + tag + encode_varint(len(body)) + body


def _body_of(command: bytes) -> bytes:
    parsed = BaseCommand.FromString(command)
    field = BaseCommand.DESCRIPTOR.fields_by_number.get(parsed.type)
    if field is None or field.message_type is None:
        return b"\x08\x01\x10\x00"
    return bytes(getattr(parsed, field.name).SerializeToString())


def _fill(message: Message, topic: str) -> None:
    required = well_formed._REQUIRED.get(message.DESCRIPTOR.name, ())
    for field in message.DESCRIPTOR.fields:
        if field.name not in {*required, "request_id", "message_id", "txnid_least_bits", "txnid_most_bits"}:
            continue
        if field.message_type is not None:
            if not field.is_repeated:
                _fill(getattr(message, field.name), topic)
                getattr(message, field.name).SetInParent()
            else:
                _fill(getattr(message, field.name).add(), topic)
        elif field.enum_type is None:
            setattr(message, field.name, _value(field, topic))
        else:
            setattr(message, field.name, field.enum_type.values[0].number)


def _value(field: Any, topic: str) -> Any:
    if field.cpp_type != field.CPPTYPE_STRING:
        return 1 if field.name in {"request_id", "message_permits"} else 0
    if field.type == field.TYPE_BYTES:
        return b""
    return topic if field.name == "topic" else _STRINGS.get(field.name, "x")
