"""The fields of a SUBSCRIBE that are needed as long as its consumer lives."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from readonly_engine.wire.pulsar_pb2 import CommandSubscribe

MAX_SHARED: Final = 256
"""Bound of the names and of the fields that later consumers share. sys.intern has none: Python 3.12 keeps its texts for ever,
and readers send a new name each time."""

_shared = lru_cache(MAX_SHARED)(str)


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
        read_compacted: whether the consumer reads the compacted topic.
    """

    name: str
    kind: CommandSubscribe.SubType
    durable: bool = True
    read_compacted: bool = False

    @classmethod
    def of(cls, subscribe: CommandSubscribe) -> SubscribeInfo:
        """Return the fields of a command; consumers with equal ones share the object."""
        return _shared_info(subscribe.subscription, subscribe.sub_type, subscribe.durable, subscribe.read_compacted)


_shared_info = lru_cache(MAX_SHARED)(SubscribeInfo)
