"""The load of a source cluster: an admin API on loopback, and statistics, also those that no broker sends."""

import asyncio
import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.owner.admin import AdminClient
from readonly_engine.owner.errors import OwnerUnavailableError
from readonly_engine.sizing import source_cluster
from readonly_engine.sizing.command import main
from readonly_engine.sizing.source_cluster import read_workload
from readonly_engine.sizing.statistics import addresses_of, load_of, sample
from readonly_engine.tool.errors import ToolError

from tests.unit.engine.doctor.played_cluster import AdminApi

ORDERS, BILLS = parse_topic_name("orders"), parse_topic_name("bills")
PLACE = "persistent/public/default"


def api(**more) -> AdminApi:
    """A namespace with a partitioned topic, another one, and a system topic."""
    names = ["orders-partition-0", "orders-partition-1", "bills", "__change_events"]
    return AdminApi(
        **{
            PLACE: [f"persistent://public/default/{name}" for name in names],
            f"{PLACE}/orders-partition-0/stats": stats(s=subscription("Shared", 3)),
            f"{PLACE}/orders-partition-1/stats": stats(s=subscription("Shared", 3)),
            f"{PLACE}/bills/stats": stats(s=subscription("Exclusive", 1)),
            f"{PLACE}/orders/entryFilters": {},
            f"{PLACE}/bills/entryFilters": {"entryFilterNames": "mine"},
            **more,
        }
    )


def read(served, topics=(), namespaces=(), **more):
    async def run():
        async with served.serving() as url:
            admin = AdminClient(url)
            try:
                return await asyncio.wait_for(read_workload(admin, topics, namespaces, **more), 30)
            finally:
                await admin.close()

    return asyncio.run(run())


def test_a_namespace():
    served = api()
    found = read(served, namespaces=["public/default"])
    names = [load.name.rpartition("/")[2] for load in found.loads]
    assert names == ["bills", "orders-partition-0", "orders-partition-1"]
    assert [load.readers for load in found.loads] == [0, 1, 1]  # bills has an entry filter
    assert (found.connections, found.notes) == (3, ())
    assert served.changes == 0
    assert served.asked.count(f"{PLACE}/orders/entryFilters") == 1


def test_statistics_of_missing_topics_are_never_requested():
    """They could create the topic."""
    served = api()
    with pytest.raises(ToolError, match="--topic: persistent://public/default/other does not exist"):
        read(served, [parse_topic_name("other")])
    assert served.asked == [PLACE]


def test_a_namespace_without_topics():
    with pytest.raises(ToolError, match="--namespace: public/default has no persistent topics"):
        read(AdminApi(**{PLACE: []}), namespaces=["public/default"])


@pytest.mark.parametrize("answer", [{"a": 1}, ["x://y"], [1], "text", 204])
def test_an_answer_that_is_no_list_of_topics(answer):
    body = json.dumps(answer) if isinstance(answer, str) else answer
    with pytest.raises(OwnerUnavailableError, match="no list of topics"):
        read(AdminApi(**{PLACE: body}), namespaces=["public/default"])


def test_a_topic_that_is_deleted_meanwhile():
    found = read(api(**{f"{PLACE}/bills/stats": 404}), namespaces=["public/default"])
    assert len(found.loads) == 2


def test_policies_that_the_role_may_not_read():
    found = read(api(**{f"{PLACE}/orders/entryFilters": 403}), [ORDERS])
    assert found.notes == (
        "The role may not read the entry filters of 1 topics: if there are any, subscriptions pass through.",
    )
    assert [load.readers for load in found.loads] == [1, 1]


def test_a_refusal_of_the_statistics_is_an_error():
    with pytest.raises(OwnerUnavailableError, match="401"):
        read(api(**{f"{PLACE}/bills/stats": 401}), [BILLS])


def test_many_topics_are_sampled(monkeypatch):
    monkeypatch.setattr(source_cluster, "MAX_TOPICS", 2)
    found = read(api(), namespaces=["public/default"])
    assert [load.topics for load in found.loads] == [1.5, 1.5]
    assert found.notes == ("The plan rests on a sample of 2 of 3 topics and partitions.",)
    assert found.connections == 3 * 1.5


def run_main(served, *words):
    """Run the command in a thread, beside the admin API."""

    async def run():
        async with served.serving() as url:
            return await asyncio.to_thread(main, ["--admin-url", url, *words])

    return asyncio.run(run())


@pytest.fixture
def _no_signals(monkeypatch):
    """Signal handlers are for main threads."""
    monkeypatch.setattr("readonly_engine.sizing.command.run_command", _run_plainly)


def _run_plainly(name, work, errors):
    try:
        asyncio.run(work)
    except errors as error:
        sys.stdout.write(f"{name}: {error}\n")
        return 1
    return 0


@pytest.mark.usefixtures("_no_signals")
def test_the_command_adds_readers(capsys):
    words = ["--topic", "orders", "--output", "json"]
    assert run_main(api(), *words) == 0
    before = json.loads(capsys.readouterr().out)
    assert run_main(api(), *words, "--readers", "50", "--subscriptions", "Exclusive=2") == 0
    after = json.loads(capsys.readouterr().out)
    assert before["load"]["delivered"] == 200
    assert after["load"]["delivered"] == 53 * 200
    assert (before["load"]["connections"], after["load"]["connections"]) == (3, 3 + 52 * 2)


@pytest.mark.usefixtures("_no_signals")
@pytest.mark.parametrize(
    ("body", "text"),
    [("[" * 100_000, "nested too deeply"), (json.dumps({"a": "x" * 300_000}), "more than 200000 bytes")],
)
def test_rubbish_of_the_admin_api_is_status_1(monkeypatch, capsys, body, text):
    monkeypatch.setattr("readonly_engine.sizing.command.COMMAND_ANSWER_BYTES", 200_000)
    assert run_main(api(**{f"{PLACE}/bills/stats": body}), "--topic", "bills") == 1
    assert text in capsys.readouterr().out


@pytest.mark.usefixtures("_no_signals")
def test_failures_of_the_admin_api_are_status_1(capsys):
    assert run_main(api(), "--topic", "other") == 1
    assert "--topic: persistent://public/default/other does not exist" in capsys.readouterr().out
    assert main(["--admin-url", "http://me:a-secret@127.0.0.1:1", "--topic", "orders"]) == 1
    shown = capsys.readouterr().out
    assert "http://***@127.0.0.1:1" in shown
    assert "a-secret" not in shown


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
