"""The load of a topic by its statistics, also by statistics that no broker sends."""

from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.sizing.statistics import addresses_of, load_of, sample


def consumer(address="10.0.0.1:1", **more):
    return {"address": address, **more}


def subscription(kind="Exclusive", consumers=1, **more):
    found = [consumer(f"10.0.0.{index}:1") for index in range(consumers)]
    return {"type": kind, "consumers": found, "isDurable": True, **more}


def stats(rate=100.0, size=102_400.0, **subscriptions):
    return {"msgRateIn": rate, "msgThroughputIn": size, "averageMsgSize": 1024, "subscriptions": subscriptions}


def test_subscriptions_without_readers_are_left_out():
    found = load_of(
        "t",
        stats(
            **{
                "pulsar-readonly-tail-p-host:6650": subscription(),
                "pulsar-readonly-guard-p-1": subscription(),
                "__compaction": subscription(),
                "offline": {"type": "Shared", "consumers": []},
                "never used": {"type": "None", "consumers": [consumer()]},
            }
        ),
    )
    assert found.subscriptions == ()


def test_messages_of_an_entry_are_those_of_the_consumers():
    """Zero-permit consumers of a pool got none."""
    one = subscription(consumers=3)
    for value, document in zip((4, 6, 0), one["consumers"], strict=True):
        document["avgMessagesPerEntry"] = value
    assert load_of("t", stats(s=one)).batch == 5
    assert load_of("t", stats(s=one)).entry_bytes == 5 * 1024
    assert load_of("t", stats(s=one), batch=2).batch == 2


def test_a_backlog_that_is_read():
    document = stats(
        behind=subscription(msgBacklog=10, msgThroughputOut=500_000.0),
        tail=subscription(msgBacklog=0, msgThroughputOut=500_000.0),
        slow=subscription(msgBacklog=10, msgThroughputOut=5.0),
    )
    found = load_of("t", document)
    assert (found.catch_up_bytes, found.catch_up_readers) == (500_000 - 102_400, 1)


def test_reasons_of_passthrough():
    one, replicated = subscription(), subscription(isReplicated=True)
    assert load_of("t", stats(s=one), filters=True).subscriptions[0].passthrough == "entry filter"
    document = stats(s=one, r=replicated)
    assert [load.passthrough for load in load_of("t", document).subscriptions] == ["", ""]  # in this cluster only
    document["replication"] = {"west": {}}
    assert [load.passthrough for load in load_of("t", document).subscriptions] == ["", "replicated subscription"]


words = st.sampled_from(["", "a", "Shared", "consumers"])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)


@given(
    document=st.fixed_dictionaries(
        {},
        optional={
            "msgRateIn": json_values,
            "msgThroughputIn": json_values,
            "averageMsgSize": json_values,
            "replication": json_values,
            "subscriptions": json_values
            | st.dictionaries(
                words,
                st.fixed_dictionaries(
                    {}, optional=dict.fromkeys(("type", "consumers", "msgBacklog", "msgThroughputOut"), json_values)
                ),
                max_size=2,
            ),
        },
    )
)
def test_any_document_has_a_load(document):
    found = load_of("t", document)
    assert found.messages >= 0
    assert found.batch >= 1
    assert found.entry_bytes >= 1
    assert addresses_of(document) is not None


def test_addresses_are_counted_once():
    document = stats(a=subscription(consumers=3), b=subscription(consumers=2))
    assert addresses_of(document) == {"10.0.0.0:1", "10.0.0.1:1", "10.0.0.2:1"}


def test_a_sample_is_spread_evenly():
    names = [f"t{index:02}" for index in range(10)]
    assert sample(reversed(names), 10) == (names, 1)
    assert sample(names, 4) == (["t00", "t02", "t05", "t07"], 2.5)
    assert sample([], 4) == ([], 1)
