"""The truth table of the ways on which consumers are served."""

import itertools

import pytest
from readonly_engine.broker.consumer.route import (
    CursorPlace,
    Leased,
    Local,
    Passthrough,
    Placement,
    Relay,
    Served,
    choose_route,
)
from readonly_engine.broker.cursors.local_requests import LocalRequest
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.owner.errors import OwnerRefusedError, OwnerUnavailableError
from readonly_engine.wire.pulsar_pb2 import CommandSubscribe
from readonly_engine.wire.subscribe_info import SubscribeInfo

TOPIC, PEER, OTHER = parse_topic_name("orders"), "pulsar://peer:6650", "pulsar://other:6650"
OWNER, POOL, BEFORE = CursorPlace
ANY = (True, False)

TABLE = [
    # bound, cursor, changes only, peer, relayed here, needs the owner: the way, or the error
    (ANY, CursorPlace, ANY, [PEER], [OTHER], ANY, OwnerUnavailableError),
    (ANY, CursorPlace, ANY, [PEER], [None], ANY, Relay(PEER)),
    (ANY, [POOL], ANY, [""], [OTHER, None], [True], OwnerRefusedError),
    (ANY, [POOL], [True], [""], [OTHER, None], [False], Local(changes_only=True)),
    (ANY, [POOL], [False], [""], [OTHER, None], [False], Local(changes_only=False)),
    (ANY, [BEFORE], [True], [""], [OTHER, None], ANY, Local(changes_only=True)),
    (ANY, [BEFORE], [False], [""], [OTHER, None], ANY, Local(changes_only=False)),
    ([True], [OWNER], ANY, [""], [OTHER, None], [False], Served()),
    ([True], [OWNER], ANY, [""], [OTHER, None], [True], Passthrough(bound=True)),
    ([False], [OWNER], ANY, [""], [OTHER, None], ANY, Passthrough(bound=False)),
]


def test_each_combination_has_one_way():
    seen = set()
    for *columns, expected in TABLE:
        for row in itertools.product(*columns):
            assert row not in seen
            seen.add(row)
            bound, cursor, changes_only, peer, relayed_by, needs_owner = row
            info = SubscribeInfo("s", CommandSubscribe.Shared)
            placement = Placement(TOPIC, info, bound, cursor, LocalRequest.FORCE if changes_only else None)
            given = placement, peer, relayed_by, "it filters entries" if needs_owner else ""
            if isinstance(expected, type):
                with pytest.raises(expected) as refused:
                    choose_route(*given)
                assert (OTHER if expected is OwnerUnavailableError else f"s of {TOPIC} needs") in str(refused.value)
            else:
                assert choose_route(*given) == expected, row
    assert len(seen) == 2 * len(CursorPlace) * 2 * 2 * 2 * 2


def test_a_broker_serves_its_consumers_of_a_split_subscription_by_leases_of_the_holder():
    placement = Placement(TOPIC, SubscribeInfo("s", CommandSubscribe.Shared), True, POOL, split=True)
    assert choose_route(placement, PEER, None, "") == Leased(PEER)
    assert choose_route(placement, "", None, "") == Local(changes_only=False)
    asks = placement._replace(request=LocalRequest.EXISTING)
    assert choose_route(asks, PEER, None, "") == Relay(PEER)


@pytest.mark.parametrize("kind", [0, 1, 2, 3])
@pytest.mark.parametrize("cursor", CursorPlace)
@pytest.mark.parametrize("bound", ANY)
def test_a_claim_is_for_what_one_broker_must_serve(bound, cursor, kind):
    placement = Placement(TOPIC, SubscribeInfo("s", kind), bound, cursor)
    shared = kind in {CommandSubscribe.Shared, CommandSubscribe.Key_Shared}
    assert placement.needs_claim == (cursor is not OWNER or (bound and shared))
    assert placement.of_pool == (bound and cursor is not BEFORE)
