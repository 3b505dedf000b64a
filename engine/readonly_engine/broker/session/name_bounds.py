"""Bound of the names in clients' commands: topics, namespaces, subscriptions, consumers and producers.

Pulsar's binary protocol has no bound but the frame, 5 MiB. A broker keeps names, and its statistics and metrics repeat them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from readonly_engine.owner.errors import OwnerRefusedError
from readonly_engine.wire.commands import body_of
from readonly_engine.wire.pulsar_pb2 import BaseCommand, ServerError

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_NAME_BYTES: Final = 8192
"""Bytes of a name in UTF-8. The admin API of a stock broker reads no longer URL (httpMaxRequestHeaderSize), so nobody could show
or delete a topic or subscription with a longer name. ZooKeeper refuses names from about 1 MB on (jute.maxbuffer)."""

NAMES: Final[Mapping[int, tuple[str, ...]]] = {
    BaseCommand.SUBSCRIBE: ("topic", "subscription", "consumer_name"),
    BaseCommand.PRODUCER: ("topic", "producer_name", "initial_subscription_name"),
    BaseCommand.LOOKUP: ("topic",),
    BaseCommand.PARTITIONED_METADATA: ("topic",),
    BaseCommand.GET_SCHEMA: ("topic",),
    BaseCommand.GET_OR_CREATE_SCHEMA: ("topic",),
    BaseCommand.GET_TOPICS_OF_NAMESPACE: ("namespace",),
    BaseCommand.WATCH_TOPIC_LIST: ("namespace",),
}
"""Fields with names, by type of command."""


def name_error(command: BaseCommand) -> OwnerRefusedError | None:
    """Return the error for a command with a name above MAX_NAME_BYTES; None if all names are short enough.

    Clients do not try again after this error.

    Args:
        command: a command of any type.
    """
    for field in NAMES.get(command.type, ()):
        size = len(getattr(body_of(command), field).encode())
        if size > MAX_NAME_BYTES:
            code = ServerError.InvalidTopicName if field == "topic" else ServerError.NotAllowedError
            what = field.removesuffix("_name").replace("_", " ")
            return OwnerRefusedError(
                code, f"the name of the {what} has {size:,} bytes; give a name of at most {MAX_NAME_BYTES:,} bytes"
            )
    return None
