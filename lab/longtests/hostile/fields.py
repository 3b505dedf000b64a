"""Every field that a client can set, its range, and frames with each field at the ends of what the wire can carry. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from google.protobuf.descriptor import FieldDescriptor
from readonly_engine.wire.framing import LENGTH_BYTES
from readonly_engine.wire.pulsar_pb2 import BaseCommand
from readonly_engine.wire.varint import encode_varint

from longtests.hostile.frames import CLIENT_COMMANDS, make_command

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from google.protobuf.descriptor import Descriptor

ID: Final = "any number: an id that the client chooses, or of nothing"
NAMED: Final = "any number: of nothing unless the client has it"
ECHO: Final = "any number: the answer repeats it"
NAME: Final = "up to 8,192 bytes of UTF-8"
TEXT: Final = "any UTF-8 within the frame"
BYTES: Final = "any bytes within the frame"
FLAG: Final = "true or false"
OWNER: Final = "any number within its type: the owner judges it"
UNUSED: Final = "any: nobody reads it"
POSITION: Final = "-1 and more: a position that no ledger has counts as unknown"
LIST: Final = "as many as the frame has room for"
PART: Final = "its own fields"


def _enum(*names: str) -> str:
    return f"one of {', '.join(names)}"


RANGES: Final[Mapping[str, Mapping[str, str]]] = {
    "AuthData": {"auth_method_name": TEXT, "auth_data": BYTES},
    "CommandAck": {
        "consumer_id": NAMED, "ack_type": _enum("Individual", "Cumulative"), "message_id": LIST,
        "validation_error": "one of the enum: it is not acted on", "properties": LIST, "txnid_least_bits": OWNER,
        "txnid_most_bits": OWNER,
        "request_id": ECHO,
    },
    "CommandAddPartitionToTxn": {
        "request_id": ECHO, "txnid_least_bits": UNUSED, "txnid_most_bits": UNUSED, "partitions": UNUSED,
    },
    "CommandAddSubscriptionToTxn": {
        "request_id": ECHO, "txnid_least_bits": UNUSED, "txnid_most_bits": UNUSED, "subscriptions": UNUSED,
    },
    "CommandAuthResponse": {"client_version": TEXT, "response": PART, "protocol_version": OWNER},
    "CommandCloseConsumer": {
        "consumer_id": NAMED, "request_id": ECHO, "assigned_broker_service_url": UNUSED,
        "assigned_broker_service_url_tls": UNUSED,
    },
    "CommandCloseProducer": {
        "producer_id": NAMED, "request_id": ECHO, "assigned_broker_service_url": UNUSED,
        "assigned_broker_service_url_tls": UNUSED,
    },
    "CommandConnect": {
        "client_version": TEXT, "auth_method": UNUSED, "auth_data": BYTES, "protocol_version": OWNER, "auth_method_name": TEXT,
        "proxy_to_broker_url": TEXT, "original_principal": TEXT, "original_auth_data": TEXT, "original_auth_method": TEXT,
        "feature_flags": PART, "proxy_version": TEXT,
    },
    "CommandConsumerStats": {"request_id": ECHO, "consumer_id": NAMED},
    "CommandEndTxn": {"request_id": ECHO, "txnid_least_bits": UNUSED, "txnid_most_bits": UNUSED, "txn_action": UNUSED},
    "CommandFlow": {"consumer_id": NAMED, "message_permits": "1 to 2^31 - 1"},
    "CommandGetLastMessageId": {"consumer_id": NAMED, "request_id": ECHO},
    "CommandGetOrCreateSchema": {"request_id": ECHO, "topic": NAME, "schema": PART},
    "CommandGetSchema": {"request_id": ECHO, "topic": NAME, "schema_version": OWNER},
    "CommandGetTopicsOfNamespace": {
        "request_id": ECHO, "namespace": "TENANT/NAMESPACE of up to 8,192 bytes", "mode": OWNER, "topics_pattern": OWNER,
        "topics_hash": OWNER,
    },
    "CommandLookupTopic": {
        "topic": NAME, "request_id": ECHO, "authoritative": FLAG, "original_principal": OWNER, "original_auth_data": OWNER,
        "original_auth_method": OWNER, "advertised_listener_name": TEXT, "properties": LIST,
    },
    "CommandNewTxn": {"request_id": ECHO, "txn_ttl_seconds": UNUSED, "tc_id": UNUSED},
    "CommandPartitionedTopicMetadata": {
        "topic": NAME, "request_id": ECHO, "original_principal": OWNER, "original_auth_data": OWNER,
        "original_auth_method": OWNER,
        "metadata_auto_creation_enabled": FLAG,
    },
    "CommandPing": {},
    "CommandPong": {},
    "CommandProducer": {
        "topic": NAME, "producer_id": ID, "request_id": ECHO, "producer_name": NAME, "encrypted": FLAG, "metadata": LIST,
        "schema": PART,
        "epoch": OWNER, "user_provided_producer_name": FLAG, "producer_access_mode": OWNER, "topic_epoch": OWNER,
        "txn_enabled": FLAG,
        "initial_subscription_name": NAME,
    },
    "CommandRedeliverUnacknowledgedMessages": {
        "consumer_id": NAMED, "message_id": LIST, "consumer_epoch": "any number: the messages repeat the highest",
    },
    "CommandSeek": {
        "consumer_id": NAMED, "request_id": ECHO, "message_id": PART, "message_publish_time": OWNER,
    },
    "CommandSend": {
        "producer_id": NAMED, "sequence_id": OWNER, "num_messages": OWNER, "txnid_least_bits": OWNER, "txnid_most_bits": OWNER,
        "highest_sequence_id": OWNER, "is_chunk": FLAG, "marker": FLAG, "message_id": OWNER,
    },
    "CommandSubscribe": {
        "topic": NAME, "subscription": NAME, "sub_type": _enum("Exclusive", "Shared", "Failover", "Key_Shared"),
        "consumer_id": ID,
        "request_id": ECHO, "consumer_name": NAME, "priority_level": "any number: the lowest comes first", "durable": FLAG,
        "start_message_id": PART, "metadata": LIST, "read_compacted": FLAG, "schema": PART, "initial_position": OWNER,
        "replicate_subscription_state": FLAG, "force_topic_creation": FLAG, "start_message_rollback_duration_sec": OWNER,
        "key_shared_meta": PART, "subscription_properties": LIST,
        "consumer_epoch": "any number: the messages repeat the highest",
    },
    "CommandUnsubscribe": {"consumer_id": NAMED, "request_id": ECHO, "force": FLAG},
    "CommandWatchTopicList": {
        "request_id": ECHO, "watcher_id": ID, "namespace": "TENANT/NAMESPACE of up to 8,192 bytes", "topics_pattern": OWNER,
        "topics_hash": OWNER,
    },
    "CommandWatchTopicListClose": {"request_id": ECHO, "watcher_id": NAMED},
    "FeatureFlags": {
        "supports_auth_refresh": FLAG, "supports_broker_entry_metadata": FLAG, "supports_partial_producer": FLAG,
        "supports_topic_watchers": FLAG, "supports_get_partitioned_metadata_without_auto_creation": FLAG,
        "supports_repl_dedup_by_lid_and_eid": FLAG,
    },
    "IntRange": {"start": "0 to 65,535, not above `end`", "end": "0 to 65,535"},
    "KeyLongValue": {"key": TEXT, "value": UNUSED},
    "KeySharedMeta": {
        "key_shared_mode": _enum("AUTO_SPLIT", "STICKY"), "hash_ranges": LIST, "allow_out_of_order_delivery": FLAG,
    },
    "KeyValue": {"key": TEXT, "value": TEXT},
    "MessageIdData": {
        "ledger_id": POSITION, "entry_id": POSITION, "partition": UNUSED, "batch_index": UNUSED, "batch_size": UNUSED,
        "ack_set": "up to 512 KB: the words of 2^20 messages count", "first_chunk_message_id": PART,
    },
    "Schema": {"name": OWNER, "schema_data": OWNER, "type": OWNER, "properties": LIST},
    "Subscription": {"topic": UNUSED, "subscription": UNUSED},
}  # fmt: skip
"""Range of each field of each message that clients send. A value outside it is answered with an error, ignored, or closes that
one connection; it harms nobody else."""

LONG_BYTES: Final = 64 << 10
"""Length of the longest strings, and of long lists on the wire."""

FULL_BYTES: Final = 5 << 20
"""Length of the longest lists: as much as a frame may have."""

_INT64: Final = (0, -1, (1 << 63) - 1, -(1 << 63))
_INT32: Final = (0, -1, (1 << 31) - 1, -(1 << 31))
_BEYOND_ENUMS: Final = (1 << 31) - 1
_TEXTS: Final = (b"", b"\x00", b"\xff", b"n" * 8192, b"n" * 8193, b"n" * LONG_BYTES)
_NUMBERS: Final = {
    FieldDescriptor.TYPE_INT64: _INT64, FieldDescriptor.TYPE_UINT64: _INT64, FieldDescriptor.TYPE_INT32: _INT32,
    FieldDescriptor.TYPE_UINT32: _INT32, FieldDescriptor.TYPE_BOOL: (0, 1),
}  # fmt: skip
_DEEP: Final = 200
"""Messages in one another: twice as many as protobuf reads."""


class Extreme(NamedTuple):
    """A frame with one field at an end of its range.

    Attributes:
        command: name of its command.
        field: the field, with those of the messages around it.
        value: the value in words.
        frame: the frame.
    """

    command: str
    field: str
    value: str
    frame: bytes


def messages_of_clients() -> dict[str, Descriptor]:
    """Return the messages that the frames of clients may have, by name."""
    found: dict[str, Descriptor] = {}

    def add(message: Descriptor) -> None:
        if message.name not in found:
            found[message.name] = message
            for field in message.fields:
                if field.message_type is not None:
                    add(field.message_type)

    for name in CLIENT_COMMANDS:
        body = _body(name)
        if body is not None:
            add(body.message_type)
    return found


def extremes(name: str, topic: str) -> Iterator[Extreme]:
    """Make frames of a command, each with another field at another end. The other fields are well formed.

    Args:
        name: name of the command.
        topic: value of its topic field, if it has one.
    """
    body = _body(name)
    if body is None:
        return
    made = BaseCommand.FromString(make_command(name, topic))
    fields = getattr(made, body.name).SerializeToString()
    for path, value, encoded in _extremes(body.message_type, ()):
        yield Extreme(name, path, value, _frame(made.type, body.number, fields + encoded))


def _body(name: str) -> FieldDescriptor | None:
    number = BaseCommand.DESCRIPTOR.enum_types_by_name["Type"].values_by_name[name].number
    field = BaseCommand.DESCRIPTOR.fields_by_number.get(number)
    return None if field is None or field.message_type is None else field


def _extremes(message: Descriptor, around: tuple[str, ...]) -> Iterator[tuple[str, str, bytes]]:
    """Yield the path of a field, its value in words, and the field as it is encoded."""
    for field in message.fields:
        path = f"{message.name}.{field.name}"
        if field.message_type is not None:
            if field.message_type.name in around:
                yield path, f"{_DEEP} in one another", _nested(field, _DEEP)
                continue
            needed = _needed(field.message_type)
            yield path, "empty", _delimited(field.number, b"")
            if field.is_repeated:
                yield from _long_lists(path, _delimited(field.number, needed))
            for inner, value, encoded in _extremes(
                field.message_type, (*around, message.name, field.message_type.name)
            ):
                yield f"{path} > {inner}", value, _delimited(field.number, needed + encoded)
        elif field.type in {FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES}:
            for text in _TEXTS:
                yield path, _in_words(text), _delimited(field.number, text)
        else:
            values = _NUMBERS.get(field.type)
            if values is None:
                values = (*sorted(field.enum_type.values_by_number), -1, _BEYOND_ENUMS)
            for number in values:
                yield path, str(number), _number(field.number, number)
            if field.is_repeated:
                yield from _long_lists(path, _number(field.number, -1))


def _long_lists(path: str, one: bytes) -> Iterator[tuple[str, str, bytes]]:
    for size in (LONG_BYTES, FULL_BYTES):
        yield path, f"{size // len(one):,} times", one * (size // len(one))


def _needed(message: Descriptor) -> bytes:
    """Encode 0 and empty texts in all fields of a message that are neither lists nor messages."""
    encoded = b""
    for field in message.fields:
        if not field.is_repeated and field.message_type is None:
            text = field.type in {FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES}
            encoded += _delimited(field.number, b"") if text else _number(field.number, 0)
    return encoded


def _nested(field: FieldDescriptor, depth: int) -> bytes:
    encoded = b""
    for _ in range(depth):
        encoded = _delimited(field.number, _needed(field.message_type) + encoded)
    return encoded


def _in_words(text: bytes) -> str:
    return repr(text) if len(text) < 10 else f"{len(text):,} bytes"


def _number(field: int, value: int) -> bytes:
    return encode_varint(field << 3) + encode_varint(value % (1 << 64))


def _delimited(field: int, value: bytes) -> bytes:
    return encode_varint(field << 3 | 2) + encode_varint(len(value)) + value


def _frame(kind: int, field: int, body: bytes) -> bytes:
    command = b"\x08" + encode_varint(kind) + _delimited(field, body)
    total = LENGTH_BYTES + len(command)
    return total.to_bytes(LENGTH_BYTES, "big") + len(command).to_bytes(LENGTH_BYTES, "big") + command
