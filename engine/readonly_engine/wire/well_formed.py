"""Reject commands for which a stock broker would close the connection, because clients share connections to owners."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from readonly_engine.wire import pulsar_pb2
from readonly_engine.wire.commands import body_of, command_name
from readonly_engine.wire.errors import MalformedFrameError
from readonly_engine.wire.pulsar_pb2 import BaseCommand

if TYPE_CHECKING:
    from google.protobuf.message import Message

_REQUIRED: Final[dict[str, tuple[str, ...]]] = {
    "CommandAck": ("consumer_id", "ack_type"),
    "CommandCloseConsumer": ("consumer_id", "request_id"),
    "CommandCloseProducer": ("producer_id", "request_id"),
    "CommandConnect": ("client_version",),
    "CommandConsumerStats": ("consumer_id", "request_id"),
    "CommandFlow": ("consumer_id", "message_permits"),
    "CommandGetLastMessageId": ("consumer_id", "request_id"),
    "CommandGetOrCreateSchema": ("request_id", "topic", "schema"),
    "CommandGetSchema": ("request_id", "topic"),
    "CommandGetTopicsOfNamespace": ("request_id", "namespace"),
    "CommandLookupTopic": ("topic", "request_id"),
    "CommandPartitionedTopicMetadata": ("topic", "request_id"),
    "CommandProducer": ("topic", "producer_id", "request_id"),
    "CommandRedeliverUnacknowledgedMessages": ("consumer_id",),
    "CommandSeek": ("consumer_id", "request_id"),
    "CommandSend": ("producer_id", "sequence_id"),
    "CommandSubscribe": ("topic", "subscription", "sub_type", "consumer_id", "request_id"),
    "CommandUnsubscribe": ("consumer_id", "request_id"),
    "CommandWatchTopicList": ("request_id", "watcher_id", "namespace", "topics_pattern"),
    "CommandWatchTopicListClose": ("request_id", "watcher_id"),
    "IntRange": ("start", "end"),
    "KeyLongValue": ("key", "value"),
    "KeySharedMeta": ("key_shared_mode",),
    "KeyValue": ("key", "value"),
    "MessageIdData": ("ledger_id", "entry_id"),
    "Schema": ("name", "schema_data", "type"),
}
"""Required fields of PulsarApi.proto. A number that an enum does not have counts as missing."""

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

_OF_SERVERS: Final = frozenset(
    number
    for name, number in BaseCommand.Type.items()
    if name.endswith(("_RESPONSE", "_SUCCESS")) and name != "AUTH_RESPONSE"
) | {
    BaseCommand.ACTIVE_CONSUMER_CHANGE,
    BaseCommand.AUTH_CHALLENGE,
    BaseCommand.CONNECTED,
    BaseCommand.ERROR,
    BaseCommand.MESSAGE,
    BaseCommand.REACHED_END_OF_TOPIC,
    BaseCommand.SEND_ERROR,
    BaseCommand.SEND_RECEIPT,
    BaseCommand.SUCCESS,
    BaseCommand.TOPIC_MIGRATED,
    BaseCommand.WATCH_TOPIC_UPDATE,
}
"""Commands that only servers send."""

_OF_NAMESPACES: Final = frozenset({BaseCommand.GET_TOPICS_OF_NAMESPACE, BaseCommand.WATCH_TOPIC_LIST})


def check_command(command: BaseCommand) -> None:
    """Check a client's command before it is relayed.

    Raises:
        MalformedFrameError: a stock broker would close the command's connection.
    """
    if command.type in _OF_SERVERS:
        raise MalformedFrameError(f"{command_name(command)}, which only servers send")
    body = body_of(command)
    missing = _missing(body)
    if missing:
        raise MalformedFrameError(f"{command_name(command)} without {missing}")
    if command.type in _OF_NAMESPACES and not _NAMESPACE.fullmatch(body.namespace):
        raise MalformedFrameError(
            f"{command_name(command)} with namespace {body.namespace[:100]!r}; expected TENANT/NAMESPACE"
        )


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
        if field.message_type is None:
            continue
        for part in value if field.is_repeated else (value,):
            if found := _missing(part):
                return f"{field.name}.{found}"
    return ""
