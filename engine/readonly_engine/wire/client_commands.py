"""Table of the commands that clients send: what each must have, its bounds, and who answers it. Pure."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from readonly_engine.wire.pulsar_pb2 import BaseCommand

if TYPE_CHECKING:
    from collections.abc import Mapping


class Answerer(Enum):
    """Who answers a request. `broker/session/client_requests.py` has a handler for each."""

    LOOKUP = "this broker, by its bindings"
    ANY_BROKER = "every broker of the source cluster"
    SCHEMA_OWNER = "the owner broker of the topic with the schema"
    CONSUMER_OWNER = "the owner broker, for a consumer"


class ClientCommand(NamedTuple):
    """A command that clients send.

    Attributes:
        required: its required fields in PulsarApi.proto. A number that an enum does not have counts as missing.
        names: fields with a name, which has a bound.
        lists: fields with a list, whose number of items has a bound; those of parts as `part.field`.
        unique: lists of keys and values that a stock broker collects in a map. If a key comes twice, it closes the connection.
        answerer: who answers it as a request; None if `broker/session/connection.py` has a branch for it, or refuses it.
    """

    required: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()
    unique: tuple[str, ...] = ()
    answerer: Answerer | None = None


_OF_CONSUMER: Final = ClientCommand(("consumer_id", "request_id"), answerer=Answerer.CONSUMER_OWNER)
_NOT_SERVED: Final = ClientCommand()

CLIENT_COMMANDS: Final[Mapping[int, ClientCommand]] = {
    BaseCommand.CONNECT: ClientCommand(("client_version",)),
    BaseCommand.AUTH_RESPONSE: ClientCommand(),
    BaseCommand.PING: ClientCommand(),
    BaseCommand.PONG: ClientCommand(),
    BaseCommand.LOOKUP: ClientCommand(
        ("topic", "request_id"), names=("topic",), lists=("properties",), answerer=Answerer.LOOKUP
    ),
    BaseCommand.PARTITIONED_METADATA: ClientCommand(
        ("topic", "request_id"), names=("topic",), answerer=Answerer.ANY_BROKER
    ),
    BaseCommand.GET_TOPICS_OF_NAMESPACE: ClientCommand(
        ("request_id", "namespace"), names=("namespace",), answerer=Answerer.ANY_BROKER
    ),
    BaseCommand.GET_SCHEMA: ClientCommand(("request_id", "topic"), names=("topic",), answerer=Answerer.ANY_BROKER),
    BaseCommand.GET_OR_CREATE_SCHEMA: ClientCommand(
        ("request_id", "topic", "schema"),
        names=("topic",),
        lists=("schema.properties",),
        answerer=Answerer.SCHEMA_OWNER,
    ),
    BaseCommand.WATCH_TOPIC_LIST: ClientCommand(
        ("request_id", "watcher_id", "namespace", "topics_pattern"), names=("namespace",)
    ),
    BaseCommand.WATCH_TOPIC_LIST_CLOSE: ClientCommand(("request_id", "watcher_id")),
    BaseCommand.SUBSCRIBE: ClientCommand(
        ("topic", "subscription", "sub_type", "consumer_id", "request_id"),
        names=("topic", "subscription", "consumer_name"),
        lists=(
            "metadata",
            "subscription_properties",
            "schema.properties",
            "key_shared_meta.hash_ranges",
            "start_message_id.ack_set",
        ),
        unique=("metadata",),
    ),
    BaseCommand.FLOW: ClientCommand(("consumer_id", "message_permits")),
    BaseCommand.ACK: ClientCommand(("consumer_id", "ack_type"), unique=("properties",)),
    BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES: ClientCommand(("consumer_id",)),
    BaseCommand.SEEK: _OF_CONSUMER,
    BaseCommand.UNSUBSCRIBE: _OF_CONSUMER,
    BaseCommand.GET_LAST_MESSAGE_ID: _OF_CONSUMER,
    BaseCommand.CONSUMER_STATS: _OF_CONSUMER,
    BaseCommand.CLOSE_CONSUMER: ClientCommand(("consumer_id", "request_id")),
    BaseCommand.PRODUCER: ClientCommand(
        ("topic", "producer_id", "request_id"),
        names=("topic", "producer_name", "initial_subscription_name"),
        lists=("metadata", "schema.properties"),
        unique=("metadata",),
    ),
    BaseCommand.SEND: ClientCommand(("producer_id", "sequence_id")),
    BaseCommand.CLOSE_PRODUCER: ClientCommand(("producer_id", "request_id")),
    BaseCommand.NEW_TXN: _NOT_SERVED,
    BaseCommand.ADD_PARTITION_TO_TXN: _NOT_SERVED,
    BaseCommand.ADD_SUBSCRIPTION_TO_TXN: _NOT_SERVED,
    BaseCommand.END_TXN: _NOT_SERVED,
    BaseCommand.END_TXN_ON_PARTITION: _NOT_SERVED,
    BaseCommand.END_TXN_ON_SUBSCRIPTION: _NOT_SERVED,
    BaseCommand.TC_CLIENT_CONNECT_REQUEST: _NOT_SERVED,
}
"""By type. Only servers send the others."""
