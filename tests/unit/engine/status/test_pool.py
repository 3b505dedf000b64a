"""State of a pool: sums, findings, and answers of brokers that are others than they were asked as."""

import json
from dataclasses import replace

import pytest
from readonly_engine.status.document import decode, encode
from readonly_engine.status.pool import MAX_FINDINGS, MemberAnswer, PoolState, answer_of
from readonly_engine.status.state import MemberState, Relief

from tests.support.states import SMALL

MEMBER = MemberState("pulsar://orders-0:6650", "http://orders-0:8080/", 12)
BARE = replace(SMALL, members=(), topics=(), subscriptions=(), clients=())
OTHER = replace(
    BARE, broker=replace(SMALL.broker, url="pulsar://orders-1:6650", consumers=5), relief=Relief(10, 100, 30, 300)
)


def answer(code=200, document=None, **broker):
    given = encode(replace(SMALL, broker=replace(SMALL.broker, **broker))) if document is None else document
    return answer_of(MEMBER, "orders", "7c1e", code, json.loads(json.dumps(given)))


def test_a_broker_of_the_pool_has_its_state_without_lists():
    assert answer() == MemberAnswer(MEMBER, BARE)


@pytest.mark.parametrize(
    ("found", "error"),
    [
        (answer(pool="theirs"), "a broker of another pool answers there: theirs 7c1e"),
        (answer(pool_uid="9999"), "a broker of another pool answers there: orders 9999"),
        (answer(url="pulsar://orders-5:6650"), "another broker answers there: pulsar://orders-5:6650"),
        (answer(url="\x1b[2J" * 1000), "another broker answers there: \\x1b[2J"),
        (answer(503, {"reason": "busy"}), "busy"),
        (answer(500, []), "HTTP status 500"),
        (answer(200, [1]), "the answer must be an object"),
        (answer(200, {"broker": {"consumers": 1e999}}), "consumers must be a number between"),
    ],
)
def test_another_answer_is_a_reason(found, error):
    assert found.status is None
    assert found.error.startswith(error)
    assert len(found.error) <= 3100, "300 characters, some as escapes"


def test_a_pool_without_uid_is_known_by_its_name():
    assert answer_of(MEMBER, "orders", "", 200, encode(SMALL)).status == BARE
    assert answer(pool_uid="").status is not None, "a broker that was started without --pool-uid"


def test_sums_are_of_the_brokers_that_answered():
    pool = PoolState(
        "orders", "7c1e", 3, (MemberAnswer(MEMBER, BARE), MemberAnswer(MEMBER, OTHER), MemberAnswer(MEMBER, None, "x"))
    )
    assert len(pool.states) == 2
    assert pool.total(lambda one: one.broker.consumers) == 17
    assert pool.spared == (SMALL.relief.spared_messages, SMALL.relief.spared_bytes), (
        "the other one has no relief, and no debt"
    )
    assert pool.relief.delivered_messages == SMALL.relief.delivered_messages + 10


def test_findings():
    well = PoolState("orders", "", 2, (MemberAnswer(MEMBER, BARE), MemberAnswer(MEMBER, OTHER)))
    assert well.findings() == []
    source = replace(SMALL.source, connected=False, suspended=True, bindings_error="line 3")
    ill = replace(OTHER, source=source, member_count=2, broker=replace(OTHER.broker, version="0.2.0"))
    pool = PoolState(
        "orders",
        "",
        3,
        (MemberAnswer(MEMBER, BARE), MemberAnswer(MEMBER, ill), MemberAnswer(MEMBER, None, "no answer")),
    )
    assert pool.findings() == [
        "pulsar://orders-0:6650 has no figures: no answer",
        "The brokers have different versions: 0.1.0, 0.2.0.",
        "The brokers see different numbers of members: 2 and 3.",
        "pulsar://orders-1:6650 cannot use its bindings: line 3",
        "pulsar://orders-1:6650 is not connected to the metadata store.",
        "pulsar://orders-1:6650 suspends delivery to its claimed subscriptions.",
    ]


def test_findings_are_bounded():
    silent = MemberAnswer(MEMBER, None, "x")
    assert len(PoolState("p", "", 1, (silent,) * MAX_FINDINGS).findings()) == MAX_FINDINGS
    found = PoolState("p", "", 1, (silent,) * (MAX_FINDINGS + 1)).findings()
    assert len(found) == MAX_FINDINGS
    assert found[-1] == "and 2 more"


def test_the_document_is_json():
    pool = PoolState("orders", "7c1e", 2, (MemberAnswer(MEMBER, BARE), MemberAnswer(MEMBER, None, "no answer")))
    document = json.loads(json.dumps(pool.document()))
    assert decode(document["members"][0]["status"]) == BARE
    assert document["members"][1]["status"] is None
    assert document["findings"] == ["pulsar://orders-0:6650 has no figures: no answer"]
