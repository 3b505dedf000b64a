"""States of read-only brokers for tests of what people see: a small one, and one with hostile names."""

from dataclasses import replace
from typing import Final

from readonly_engine.status.state import (
    BrokerState,
    ClientState,
    MemberState,
    Pages,
    ReasonCount,
    Relief,
    SourceState,
    Status,
    SubscriptionState,
    TopicState,
)

P: Final = "persistent://public/default/"
HOSTILE: Final = "<script>alert(1)</script>\"'&\x1b[2J\u202e\x00" + "x" * 2000
"""A name with HTML, quotes, a terminal's command, a change of direction, and more characters than anyone reads."""

SMALL: Final = Status(
    broker=BrokerState(
        url="pulsar://orders-0:6650",
        version="0.1.0",
        commit="0123abcd",
        uptime_s=7384.0,
        pool="orders",
        pool_uid="7c1e",
        locality="/eu/a",
        worker=1,
        workers=4,
        connections=3,
        consumers=12,
        topics=2,
        subscriptions=3,
        claims=1,
    ),
    members=(
        MemberState("pulsar://orders-0:6650", "http://orders-0:8080/", 12, "/eu/a", itself=True),
        MemberState("pulsar://orders-1:6650", "http://orders-1:8080/", 9, "/eu/b"),
        MemberState("pulsar://old:6650", "", 0, ""),
    ),
    member_count=3,
    source=SourceState("pulsar://owner:6650", "zk:zookeeper:2181", True, 0, False, "", 2, 1),
    relief=Relief(1_234_567, 5 << 30, 34_567, 100 << 20),
    reasons=(ReasonCount("direct-consumers", 1),),
    pages=Pages(1, 1, 2),
    topics=(
        TopicState(P + "clicks", 1, 2, 1234.5, 1e6, 42, "billing", "owner", 1),
        TopicState(P + "orders", 2, 10, None, None, 0, "audit", "bookies", 0),
    ),
)

TOPIC: Final = replace(
    SMALL,
    pages=Pages(2, 3, 250),
    topics=SMALL.topics[:1],
    subscriptions=(
        SubscriptionState("audit", "Exclusive", 1, 10.0, 2048.0, 0, 0, "7:41"),
        SubscriptionState(
            "billing", "Shared", 2, None, None, None, 3, "", "owner", "direct-consumers", "consumers at 10.0.0.9:5001"
        ),
        SubscriptionState("far", "Key_Shared", 1, 0.0, 0.0, None, 0, "", "pulsar://orders-1:6650"),
    ),
)

CLIENTS: Final = replace(
    TOPIC,
    pages=Pages(1, 1, 1),
    subscriptions=TOPIC.subscriptions[:1],
    clients=(ClientState("c-1", "10.0.0.7:40001", "Pulsar-Java-v4.0.8", 900, 100, 5000, 1 << 20),),
)

ALL_HOSTILE: Final = replace(
    CLIENTS,
    broker=replace(SMALL.broker, url=HOSTILE, pool=HOSTILE, pool_uid=HOSTILE, locality=HOSTILE, version=HOSTILE),
    members=(MemberState(HOSTILE, "", 1, HOSTILE), MemberState("pulsar://a:1", "http://a:1/", 1)),
    source=replace(SMALL.source, service_url=HOSTILE, metadata_store_url=HOSTILE, bindings_error=HOSTILE),
    reasons=(ReasonCount(HOSTILE, 1),),
    topics=(TopicState(HOSTILE, 1, 1, 1.0, 1.0, 1, HOSTILE, HOSTILE, 1),),
    subscriptions=(SubscriptionState(HOSTILE, HOSTILE, 1, 1.0, 1.0, 1, 1, HOSTILE, HOSTILE, HOSTILE, HOSTILE),),
    clients=(ClientState(HOSTILE, HOSTILE, HOSTILE, 1, 1, 1, 1),),
)
