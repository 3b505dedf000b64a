"""Bound of the lists in one command: a frame has room for a million pairs, which keep the event loop for 0.1 s."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from readonly_engine.wire import pulsar_pb2
from readonly_engine.wire.commands import body_of
from readonly_engine.wire.errors import MalformedFrameError
from readonly_engine.wire.framing import LENGTH_BYTES

MAX_LIST_BYTES: Final = 512 << 10
"""Bytes of all lists in a command (metadata, properties, key ranges, ack sets), as encoded: some 10 ms of the event loop.

A stock broker has no such bound. Long ACKs come here in parts (long_acks.py).
"""


class LongLists(NamedTuple):
    """A command with lists beyond the bound.

    Attributes:
        command: the command without its lists, like a BaseCommand.
        request_id: its request id; None if it needs no answer.
        size: bytes of its lists and of unknown fields.
    """

    command: Any
    request_id: int | None
    size: int


def _command_without_lists() -> type[Message]:
    """Return BaseCommand without repeated fields: protobuf skips them as unknown ones, in a twentieth of the time."""
    file = FileDescriptorProto()
    pulsar_pb2.DESCRIPTOR.CopyToProto(file)
    for message in file.message_type:
        single = [field for field in message.field if field.label != FieldDescriptorProto.LABEL_REPEATED]
        del message.field[:]
        message.field.extend(single)
    pool = DescriptorPool()
    pool.Add(file)
    return GetMessageClass(pool.FindFileByName(file.name).message_types_by_name["BaseCommand"])


_WithoutLists: Final = _command_without_lists()


def decode_without_lists(encoded: bytes) -> Any:
    """Decode a command without its lists and unknown fields; the result is like a BaseCommand.

    Raises:
        MalformedFrameError: not a command.
    """
    command: Any = _WithoutLists()
    try:
        command.ParseFromString(encoded)
    except DecodeError as error:
        raise MalformedFrameError("a frame that is not a Pulsar command") from error
    command.DiscardUnknownFields()
    return command


def find_long_lists(frame: bytes) -> LongLists | None:
    """Return what is known of a command whose lists are beyond the bound; None if they are within it.

    Args:
        frame: a frame without its length prefix. Only the command counts, not the payload after it.

    Raises:
        MalformedFrameError: not a command, or one of unknown type.
    """
    end = LENGTH_BYTES + int.from_bytes(frame[:LENGTH_BYTES], "big")
    if min(end, len(frame)) - LENGTH_BYTES <= MAX_LIST_BYTES:
        return None
    encoded = frame[LENGTH_BYTES:end]
    command = decode_without_lists(encoded)
    size = len(encoded) - command.ByteSize()
    if size <= MAX_LIST_BYTES:
        return None
    body = body_of(command)
    known = "request_id" in body.DESCRIPTOR.fields_by_name and body.HasField("request_id")
    return LongLists(command, body.request_id if known else None, size)
