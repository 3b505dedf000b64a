"""The lasting fields of a SUBSCRIBE."""

from readonly_engine.wire import subscribe_info
from readonly_engine.wire.pulsar_pb2 import CommandSubscribe
from readonly_engine.wire.subscribe_info import MAX_SHARED, SubscribeInfo, shared_name


def info(name: str) -> SubscribeInfo:
    return SubscribeInfo.of(
        CommandSubscribe(
            subscription=name,
            sub_type=CommandSubscribe.Shared,
            durable=False,
            read_compacted=True,
        )
    )


def test_consumers_share_their_fields_and_those_that_are_not_used_are_dropped() -> None:
    one, name = info("a subscription"), shared_name("a name of 1")
    assert one == SubscribeInfo("a subscription", CommandSubscribe.Shared, False, True)
    assert one is info("a subscription")
    assert name is shared_name(f"a name of {1}")
    for number in range(MAX_SHARED + 1):
        info(f"reader-{number}")
        shared_name(f"reader-{number}")
    for cache in (subscribe_info._shared, subscribe_info._shared_info):
        assert cache.cache_info().currsize == MAX_SHARED
    assert info("a subscription") is not one
    assert shared_name(f"a name of {1}") is not name
