"""Parts of a subscription of which a test plays some."""

from typing import Any

from readonly_engine.broker.dispatch.counters import Counters
from readonly_engine.broker.dispatch.make import DispatchSettings
from readonly_engine.broker.subscription.owner_keeper import OwnerKeeper
from readonly_engine.broker.subscription.parts import SubscriptionParts
from readonly_engine.lease_guard import LeaseGuard
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.owner.consumer_events import OwnerCursorState
from readonly_engine.topic.position import Position
from readonly_engine.wire.pulsar_pb2 import CommandSubscribe
from readonly_engine.wire.subscribe_info import SubscribeInfo


def subscription_parts(
    view: Any, subscribe: CommandSubscribe, transactions: Any, mark_delete: Position, last: Position, **given: Any
) -> SubscriptionParts:
    """Return the parts of a subscription whose cursor is kept by the owner. `given` are parts that are not the usual ones."""
    keeper = OwnerKeeper(None, parse_topic_name(subscribe.topic), SubscribeInfo.of(subscribe))  # type: ignore[arg-type]
    usual: dict[str, Any] = {
        "name": subscribe.subscription,
        "settings": DispatchSettings(),
        "rates": (),
        "acked": [],
        "batches": [],
        "keeper": keeper,
        "counters": Counters(),
        "fanout": None,
        "guard": LeaseGuard(),
        "state": OwnerCursorState(mark_delete, last),
    }
    return SubscriptionParts(view=view, subscribe=subscribe, transactions=transactions, **usual | given)
