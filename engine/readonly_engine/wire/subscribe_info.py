"""The fields of a SUBSCRIBE that are needed as long as its consumer lives."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from readonly_engine.wire.pulsar_pb2 import CommandSubscribe

MAX_SHARED_NAMES: Final = 1024
"""Bound of the names that later consumers share. sys.intern has none: Python 3.12 keeps its texts for ever, and readers send a
new name each time."""

_shared = lru_cache(MAX_SHARED_NAMES)(str)


def shared_name(name: str) -> str:
    """Return a name, as the object that earlier consumers of the same name have, if they are not long ago."""
    return _shared(name)


@dataclass(frozen=True, slots=True)
class SubscribeInfo:
    """What a consumer has subscribed to. The command itself takes several times the memory.

    Attributes:
        name: name of the subscription.
        kind: type of the subscription.
        durable: whether the subscription's cursor is stored.
        consumer_name: name of the consumer; empty if the client has sent none.
        read_compacted: whether the consumer reads the compacted topic.
    """

    name: str
    kind: CommandSubscribe.SubType
    durable: bool = True
    consumer_name: str = ""
    read_compacted: bool = False

    @classmethod
    def of(cls, subscribe: CommandSubscribe) -> SubscribeInfo:
        """Return the fields of a command. Consumers of a subscription share its name, those of a client's topics theirs."""
        return cls(
            shared_name(subscribe.subscription),
            subscribe.sub_type,
            subscribe.durable,
            shared_name(subscribe.consumer_name),
            subscribe.read_compacted,
        )
