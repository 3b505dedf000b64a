"""Commands of Pulsar's binary protocol.

    [int32 total][int32 command size][BaseCommand][of a MESSAGE or SEND: checksum, metadata, payload]

framing.py handles the length prefix `total`; frames here start at the command size.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from google.protobuf.message import DecodeError

from readonly_engine.wire.errors import MalformedFrameError
from readonly_engine.wire.framing import LENGTH_BYTES
from readonly_engine.wire.pulsar_pb2 import BaseCommand
from readonly_engine.wire.varint import decode_varint, encode_varint

if TYPE_CHECKING:
    from collections.abc import Sequence

NEWEST_PROTOCOL_VERSION = 21
"""The protocol version of Pulsar 4.0; a server answers with the lower of its own and the client's."""

NO_EPOCH = -1

_NO_PARTITION = encode_varint(-1)
_SIZES = struct.Struct(">II")
_TOPICS_READ = 4096


def encode_command(command: BaseCommand, payload: bytes = b"") -> bytes:
    """Return a command as a frame, with its length prefix; `payload` follows the command in a MESSAGE or SEND."""
    body = command.SerializeToString()
    size = len(body)
    total = LENGTH_BYTES + size + len(payload)
    return b"".join((total.to_bytes(LENGTH_BYTES, "big"), size.to_bytes(LENGTH_BYTES, "big"), body, payload))


def decode_command(frame: bytes) -> tuple[BaseCommand, int]:
    """Decode the command in a frame; return it and the offset after it.

    Raises:
        MalformedFrameError: not a command.
    """
    end = LENGTH_BYTES + int.from_bytes(frame[:LENGTH_BYTES], "big")
    if len(frame) < LENGTH_BYTES or end > len(frame):
        raise MalformedFrameError("a frame that is shorter than its command")
    command = BaseCommand()
    try:
        command.ParseFromString(frame[LENGTH_BYTES:end])
    except DecodeError as error:
        raise MalformedFrameError("a frame that is not a Pulsar command") from error
    return command, end


def command_name(command: BaseCommand) -> str:
    """Return the command's name in Pulsar, for messages to people."""
    try:
        return str(BaseCommand.Type.Name(command.type))
    except ValueError:
        return f"command {command.type}"


_BODY_FIELDS = {field.number: field.name for field in BaseCommand.DESCRIPTOR.fields if field.name != "type"}
_REQUESTS = frozenset(
    field.number
    for field in BaseCommand.DESCRIPTOR.fields
    if field.message_type is not None and "request_id" in field.message_type.fields_by_name
)


def body_of(command: BaseCommand) -> Any:
    """Return the body of a command: its field has the same number as the command's type.

    Raises:
        MalformedFrameError: a type that Pulsar 4.0 does not have.
    """
    field = _BODY_FIELDS.get(command.type)
    if field is None:
        raise MalformedFrameError(f"a command of unknown type {command.type}")
    return getattr(command, field)


def has_request_id(command: BaseCommand) -> bool:
    """Whether the command is, or can be, a request with a response, or such a response."""
    return command.type in _REQUESTS


_TYPE, _FIRST_NUMBER = 0x08, 0x08
"""Tags: a command's type, and field 1 of its body, if it is a number."""

_NUMBERED_FIRST = frozenset(
    field.number
    for field in BaseCommand.DESCRIPTOR.fields
    if field.number in _REQUESTS
    and field.message_type is not None
    and field.message_type.fields_by_name["request_id"].number == 1
)


def request_id_in_head(head: bytes) -> int | None:
    """Decode the request id in the first bytes of a command.

    Args:
        head: the frame's first bytes, without its length prefix.

    Returns:
        The id; None if it is not the first field of the command's body.
    """
    try:
        if head[LENGTH_BYTES] != _TYPE:
            return None
        kind, at = decode_varint(head, LENGTH_BYTES + 1)
        _, at = decode_varint(head, at)  # the body's tag
        _, at = decode_varint(head, at)  # its size
        if kind not in _NUMBERED_FIRST or head[at] != _FIRST_NUMBER:
            return None
        return decode_varint(head, at + 1)[0]
    except (IndexError, MalformedFrameError):
        return None


def encode_message_frame(
    consumer_id: int,
    ledger_id: int,
    entry_id: int,
    partition: int,
    payload: bytes,
    redelivery_count: int = 0,
    consumer_epoch: int = NO_EPOCH,
    ack_set: Sequence[int] = (),
) -> bytes:
    """Return a MESSAGE frame around the bytes of an entry, with its length prefix.

    Encoded by hand because it is made for every entry.

    Args:
        consumer_id: the consumer's id on its connection.
        ledger_id: the entry's ledger.
        entry_id: the entry.
        partition: index of the partition, -1 for a topic without partitions.
        payload: the stored bytes: checksum, metadata, messages; before them, where it is exposed, the owner's own metadata.
        redelivery_count: number of earlier deliveries of the entry.
        consumer_epoch: sent only if it is not NO_EPOCH (Commands.newMessage).
        ack_set: the unacked messages of a partly acked batch: words of 64 bits, signed.
    """
    consumer, ledger, where = _fixed_parts(consumer_id, ledger_id, partition)
    entry = encode_varint(entry_id)
    id_size = len(ledger) + len(entry) + len(where)
    rest = b""
    if redelivery_count:
        rest += b"\x18" + encode_varint(redelivery_count)
    for word in ack_set:
        rest += b"\x20" + encode_varint(word)
    if consumer_epoch > NO_EPOCH:
        rest += b"\x28" + encode_varint(consumer_epoch)
    body_size = len(consumer) + 1 + id_size + len(rest)
    head = b"\x08\x09\x4a" + encode_varint(body_size) + consumer
    size = len(head) + body_size - len(consumer)
    sizes = _SIZES.pack(LENGTH_BYTES + size + len(payload), size)
    return b"".join((sizes, head, encode_varint(id_size), ledger, entry, where, rest, payload))


@lru_cache(_TOPICS_READ)
def _fixed_parts(consumer_id: int, ledger_id: int, partition: int) -> tuple[bytes, bytes, bytes]:
    """Return the constant parts of a consumer's MESSAGE frames of a ledger: consumer id, ledger id and partition, as fields."""
    # The owner always writes the partition, -1 too: these are the same bytes as its own (measured).
    where = _NO_PARTITION if partition < 0 else encode_varint(partition)
    consumer = b"\x08" + encode_varint(consumer_id) + b"\x12"
    return consumer, b"\x08" + encode_varint(ledger_id) + b"\x10", b"\x18" + where
