"""Reject commands for which a stock broker would close the connection, because clients share connections to owners."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from google.protobuf.descriptor_pb2 import FeatureSet, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from readonly_engine.wire import pulsar_pb2
from readonly_engine.wire.client_commands import CLIENT_COMMANDS
from readonly_engine.wire.commands import body_of, command_name
from readonly_engine.wire.errors import MalformedFrameError
from readonly_engine.wire.pulsar_pb2 import BaseCommand

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from google.protobuf.message import Message

    from readonly_engine.wire.pulsar_pb2 import KeyLongValue, KeyValue

_REQUIRED: Final[dict[str, tuple[str, ...]]] = {
    **{
        body_of(BaseCommand(type=kind)).DESCRIPTOR.name: command.required
        for kind, command in CLIENT_COMMANDS.items()
        if command.required
    },
    "IntRange": ("start", "end"),
    "KeyLongValue": ("key", "value"),
    "KeySharedMeta": ("key_shared_mode",),
    "KeyValue": ("key", "value"),
    "MessageIdData": ("ledger_id", "entry_id"),
    "Schema": ("name", "schema_data", "type"),
}
"""Required fields of the commands and of their parts."""

_LISTED: Final = frozenset({"IntRange", "KeyLongValue", "KeyValue", "MessageIdData"})
"""Messages of which one frame may have a million, and whose required fields have no enum."""

_UNIQUE: Final = frozenset(
    {
        (body_of(BaseCommand(type=kind)).DESCRIPTOR.name, field)
        for kind, command in CLIENT_COMMANDS.items()
        for field in command.unique
    }
    | {("Schema", "properties")}
)

_VERSION_BYTES: Final = 8
"""A stock broker reads a schema version of GET_SCHEMA as a number of 64 bits, and closes the connection if it is shorter."""

_FEW: Final = 100
"""Messages that are checked one by one, at 4 µs each. More are checked by protobuf in C, which takes a thirtieth of that."""


def _strict_messages() -> Mapping[str, type[Message]]:
    """Return the messages of pulsar_pb2 as classes that have _REQUIRED."""
    file = FileDescriptorProto()
    pulsar_pb2.DESCRIPTOR.CopyToProto(file)
    for message in file.message_type:
        for field in message.field:
            if field.name in _REQUIRED.get(message.name, ()):
                field.options.features.field_presence = FeatureSet.LEGACY_REQUIRED
    pool = DescriptorPool()
    pool.Add(file)
    messages = pool.FindFileByName(file.name).message_types_by_name
    return {name: GetMessageClass(message) for name, message in messages.items()}


_STRICT: Final = _strict_messages()

_FREE: Final = frozenset(
    message.name
    for message in pulsar_pb2.DESCRIPTOR.message_types_by_name.values()
    if message.name not in _REQUIRED and not any(field.message_type for field in message.fields)
)
"""Messages in which nothing is required."""

_ENUMS: Final = {
    kind: [
        (name, frozenset(field.enum_type.values_by_number))
        for name in names
        if (field := getattr(pulsar_pb2, kind).DESCRIPTOR.fields_by_name[name]).enum_type is not None
    ]
    for kind, names in _REQUIRED.items()
}

_NAMESPACE = re.compile(r"[-=:.\w]+/[-=:.\w]+(/[-=:.\w]+)?", re.ASCII)
"""TENANT/NAMESPACE (NamespaceName and NamedEntity); older names have a cluster between."""

_OF_NAMESPACES: Final = frozenset({BaseCommand.GET_TOPICS_OF_NAMESPACE, BaseCommand.WATCH_TOPIC_LIST})


def check_command(command: BaseCommand) -> None:
    """Check a client's command before it is relayed.

    Raises:
        MalformedFrameError: a stock broker would close the command's connection.
    """
    if command.type not in CLIENT_COMMANDS:
        raise MalformedFrameError(f"{command_name(command)}, which only servers send")
    body = body_of(command)
    missing = _missing(body)
    if missing:
        raise MalformedFrameError(f"{command_name(command)} without {missing}")
    if command.type == BaseCommand.GET_SCHEMA and 0 < len(body.schema_version) < _VERSION_BYTES:
        raise MalformedFrameError(f"GET_SCHEMA with a schema version of {len(body.schema_version)} bytes; expected 8")
    if command.type in _OF_NAMESPACES and not _NAMESPACE.fullmatch(body.namespace):
        raise MalformedFrameError(
            f"{command_name(command)} with namespace {body.namespace[:100]!r}; expected TENANT/NAMESPACE"
        )


def _has_twice(items: Iterable[KeyValue | KeyLongValue]) -> bool:
    """Return whether a key comes twice."""
    keys: set[str] = set()
    for item in items:
        if item.key in keys:
            return True
        keys.add(item.key)
    return False


def _missing(message: Message) -> str:
    """Return the first missing required field; empty for none."""
    kind = message.DESCRIPTOR.name
    for name in _REQUIRED.get(kind, ()):
        if not message.HasField(name):
            return name
    for name, known in _ENUMS.get(kind, ()):
        if getattr(message, name) not in known:
            return name
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.name in _FREE:
            continue
        if not field.is_repeated:
            found = _missing(value)
        elif len(value) > _FEW and field.message_type.name in _LISTED:
            strict = _STRICT[kind].FromString(message.SerializePartialToString())
            found = "" if strict.IsInitialized() else "a required field"
        else:
            found = next(filter(None, map(_missing, value)), "")
        if not found and (kind, field.name) in _UNIQUE and _has_twice(value):
            found = "a single value of each key"
        if found:
            return f"{field.name}.{found}"
    return ""
