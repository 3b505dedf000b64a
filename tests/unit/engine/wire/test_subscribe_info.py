"""The lasting fields of a SUBSCRIBE."""

from __future__ import annotations

from readonly_engine.wire import subscribe_info
from readonly_engine.wire.pulsar_pb2 import CommandSubscribe
from readonly_engine.wire.subscribe_info import MAX_SHARED_NAMES, SubscribeInfo


def info(name: str, consumer: str = "c") -> SubscribeInfo:
    return SubscribeInfo.of(
        CommandSubscribe(
            subscription=name,
            consumer_name=consumer,
            sub_type=CommandSubscribe.Shared,
            durable=False,
            read_compacted=True,
        )
    )


def test_consumers_share_their_names_and_names_that_are_not_used_are_dropped() -> None:
    one, other = info("a subscription"), info("a subscription")
    assert one == SubscribeInfo("a subscription", CommandSubscribe.Shared, False, "c", True)
    assert one.name is other.name
    assert one.consumer_name is other.consumer_name
    for number in range(MAX_SHARED_NAMES + 1):
        info(f"reader-{number}")
    assert subscribe_info._shared.cache_info().currsize == MAX_SHARED_NAMES
    assert info("a subscription").name is not one.name
