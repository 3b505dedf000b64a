"""The marks of the pool in the SUBSCRIBE that a broker sends for a client."""

import pytest
from readonly_engine.broker.consumer.relay_marks import RELAYED_BY, marked_subscribe, relayed_by
from readonly_engine.broker.passthrough.pool_metadata import POOL_KEY
from readonly_engine.wire.pulsar_pb2 import CommandSubscribe


@pytest.mark.parametrize(
    ("of_client", "marks", "by", "expected"),
    [
        ([("k", "v")], {}, None, [("k", "v")]),
        ([("k", "v")], {"pool": "ours"}, None, [("k", "v"), (POOL_KEY, "ours")]),
        ([("k", "v")], {"relayed_by": "pulsar://here:1"}, None, [("k", "v"), (RELAYED_BY, "pulsar://here:1")]),
        ([(RELAYED_BY, "x"), ("k", "v"), (RELAYED_BY, "y")], {}, "y", [("k", "v")]),
        ([(RELAYED_BY, "")], {"pool": "ours"}, "", [(POOL_KEY, "ours")]),
    ],
)
def test_the_next_broker_gets_the_marks_of_this_one_only(of_client, marks, by, expected):
    subscribe = CommandSubscribe(
        topic="t", subscription="s", sub_type=CommandSubscribe.Shared, consumer_id=1, request_id=2
    )
    for key, value in of_client:
        subscribe.metadata.add(key=key, value=value)
    before = subscribe.SerializeToString()
    assert relayed_by(subscribe) == by
    marked = marked_subscribe(subscribe, **marks)
    assert [(item.key, item.value) for item in marked.metadata] == expected
    assert marked.subscription == "s"
    assert subscribe.SerializeToString() == before  # the client's own command stays as it is
