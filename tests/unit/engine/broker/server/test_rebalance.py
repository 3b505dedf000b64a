from __future__ import annotations

from types import SimpleNamespace

from readonly_engine.broker.pool.claim_store import ClaimHandle
from readonly_engine.broker.pool.claims import ClaimKey
from readonly_engine.broker.server.rebalance import _units
from readonly_engine.metadata.topic_name import parse_topic_name


def consumer(name, subscription="", peer=""):
    claim = ClaimHandle(ClaimKey(parse_topic_name("orders"), subscription), 1, peer) if subscription else None
    return SimpleNamespace(name=name, claim=claim, peer=peer)


def test_a_claimed_subscription_moves_as_a_whole_and_after_all_others():
    consumers = [
        consumer("a", "large"),
        consumer("b", "small"),
        consumer("c"),
        consumer("d", "large"),
        consumer("e", "large", peer="pulsar://other:6650"),
        consumer("f"),
    ]
    assert [[one.name for one in unit] for unit in _units(consumers)] == [["c"], ["f"], ["b"], ["a", "d"]]
