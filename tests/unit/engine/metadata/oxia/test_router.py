"""Servers that a client of Oxia knows, to follow the shards when one of them is silent."""

from readonly_engine.metadata.oxia.router import MAX_SERVERS, Router
from readonly_engine.wire.oxia_pb2 import ShardAssignments


def answer(**leaders: list[str]) -> ShardAssignments:
    """Leaders of the shards of each namespace."""
    found = ShardAssignments()
    for namespace, addresses in leaders.items():
        for number, leader in enumerate(addresses):
            found.namespaces[namespace].assignments.add(shard=number, leader=leader)
    return found


def router() -> Router:
    return Router("first:1", "broker", None)  # type: ignore[arg-type]  # nothing is sent


def test_leaders_of_other_namespaces_are_known_too():
    known = router()
    known._remember(answer(broker=["a:1", "a:1"], bookkeeper=["b:1", ""]))
    assert known._servers == ["a:1", "b:1"]
    known._remember(answer(broker=["c:1"]))
    assert known._servers == ["c:1", "a:1", "b:1"], "those that led before stay"


def test_a_server_that_names_many_others_fills_no_memory():
    known = router()
    known._remember(answer(broker=["old:1"]))
    known._remember(answer(broker=[f"s{number:03}:1" for number in range(MAX_SERVERS)]))
    assert len(known._servers) == MAX_SERVERS
    assert "old:1" not in known._servers
