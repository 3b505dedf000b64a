from readonly_engine.broker.consumer.limits import Limits
from readonly_engine.config.reader import make_config
from readonly_engine.metadata.topic_name import parse_topic_name

from tests.unit.engine.config.values import REQUIRED

A, B = parse_topic_name("a"), parse_topic_name("b")


def limits_of(**options):
    return Limits(make_config({}, {**REQUIRED, **{key.replace("_", "-"): most for key, most in options.items()}}))


def test_without_limits_all_are_taken():
    limits = limits_of()
    assert not any(limits.connect("10.0.0.1") or limits.subscribe(A, "s") for _ in range(1000))
    assert (limits.consumers, sum(limits.refused.values())) == (1000, 0)


def test_connections_are_refused_in_all_and_from_one_address():
    limits = limits_of(max_connections=3, max_connections_per_ip=2)
    assert [limits.connect("10.0.0.1") for _ in range(3)] == [
        "",
        "",
        "Reached the maximum number of connections on address 10.0.0.1",
    ]
    limits.disconnect("10.0.0.1")  # the one that was refused
    assert limits.connect("10.0.0.2") == ""
    assert limits.connect("10.0.0.3") == "Reached the maximum number of connections"
    limits.disconnect("10.0.0.3")
    limits.disconnect("10.0.0.1")
    assert limits.connect("10.0.0.3") == ""
    assert limits.refused == {
        "connections": 1,
        "connections-per-ip": 1,
        "consumers-per-topic": 0,
        "consumers-per-subscription": 0,
    }


def test_consumers_are_refused_for_a_topic_and_for_a_subscription():
    limits = limits_of(max_consumers_per_topic=3, max_consumers_per_subscription=2)
    assert [limits.subscribe(A, "s") for _ in range(3)] == ["", "", "Subscription reached max consumers limit"]
    assert [limits.subscribe(A, "t") for _ in range(2)] == ["", "Topic reached max consumers limit"]
    assert limits.subscribe(B, "s") == ""
    assert limits.consumers == 4
    limits.leave(A, "s")
    assert limits.subscribe(A, "s") == ""
