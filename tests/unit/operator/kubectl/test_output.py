"""What the plugin prints: golden tables and charts, hostile names, bounds, and where to look next.

A change that is meant: UPDATE_GOLDEN=1 pytest tests/unit/operator/kubectl/test_output.py, then read the diff.
"""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from readonly_engine.status.document import decode
from readonly_engine.top.observed import Observed
from readonly_operator.api.reasons import CONDITIONS, OF_BINDINGS, OF_BOTH, OF_POOLS
from readonly_operator.kube.names import PoolKey
from readonly_operator.kubectl import next_steps, rights, tables, topology
from readonly_operator.kubectl.document import as_document
from readonly_operator.kubectl.next_steps import COMMANDS, GOOD_WHEN_FALSE, MAX_STEPS, NEVER_BAD, SAME_AS_OTHERS
from readonly_operator.kubectl.snapshot import BindingView, BrokerView, ConditionView, PoolView, Snapshot

from tests.support.golden import check_golden
from tests.support.states import ALL_HOSTILE, HOSTILE, SMALL, TOPIC, P

GOLDEN = Path(__file__).with_name("golden")
KEY = PoolKey("streaming", "orders")
TIME = "2026-11-01T10:00:00Z"
READY = ConditionView("Ready", "True", "BrokersReady", "2 of 2 brokers are ready", TIME)


def broker(number, **changes):
    one = BrokerView(
        f"orders-{number}", ready=True, node=f"node-{number}", locality="/eu/a",
        observed=(Observed(f"orders-{number}", SMALL),),
    )  # fmt: skip
    return replace(one, **changes)


BINDING = BindingView(
    "streaming", "clicks", KEY, (P + "clicks",), ("public/events",), 7, 2, 2, (ConditionView("Ready", "True", "Held"),)
)
WELL = PoolView(
    KEY,
    2,
    2,
    1,
    "pulsar://owner:6650",
    "zk:zookeeper:2181",
    (READY,),
    brokers=(broker(0), broker(1)),
    bindings=(BINDING,),
)
ILL = replace(
    WELL,
    ready_replicas=1,
    conditions=(
        replace(READY, status="False", reason="BrokersNotReady", message="1 of 2 brokers is ready\norders-1: Pending"),
        ConditionView("SourceReachable", "False", "Unreachable", "metadataStoreUrl: no answer", TIME),
        ConditionView("Stalled", "True", "BrokersNotReady", "the same", TIME, outdated=True),
    ),
    brokers=(broker(0), BrokerView("orders-1", problem="Unschedulable (0/3 nodes)", restarts=2)),
    bindings=(replace(BINDING, conditions=(ConditionView("Ready", "False", "NotAllowedByPool"),)),),
)
SNAPSHOTS = {
    "well": Snapshot("streaming", (WELL,)),
    "ill": Snapshot(
        "streaming", (ILL,), (replace(BINDING, name="far", pool=PoolKey("other", "p"), conditions=()),),
        (rights.proxy_to_pods("streaming"),), ("a note",),
    ),
    "topic": Snapshot("streaming", (replace(WELL, brokers=(broker(0, observed=(Observed("orders-0", TOPIC),)),)),)),
}  # fmt: skip
NASTY = 'x"]; click n1 "javascript:alert(1)"\n%%{init: {}}%%\nend #quot; <b>`&\u202e\x1b[2J' + "y" * 500
HOSTILE_POOL = PoolView(
    PoolKey("a", "b"), 1, 1, 1, NASTY, NASTY, (ConditionView("Ready", NASTY, NASTY, NASTY, NASTY),),
    brokers=(broker(0, pod=NASTY, node=NASTY, locality=NASTY, problem=NASTY, observed=(Observed(NASTY, ALL_HOSTILE, NASTY),)),),
    bindings=(BindingView(NASTY, NASTY, KEY, (NASTY, HOSTILE), (NASTY,), 1, 1, 1, ()),),
)  # fmt: skip
HOSTILE_SNAPSHOT = Snapshot(NASTY, (HOSTILE_POOL,), HOSTILE_POOL.bindings, (), (NASTY,))


@pytest.mark.parametrize("name", SNAPSHOTS)
@pytest.mark.parametrize(("kind", "render"), [("txt", tables.render), ("mmd", topology.render)])
def test_the_output_is_the_golden_one(name, kind, render):
    check_golden(GOLDEN / f"{name}.{kind}", "\n".join([*render(SNAPSHOTS[name]), ""]))


def test_no_name_controls_the_terminal():
    for line in tables.render(HOSTILE_SNAPSHOT):
        assert line.isprintable()
        assert len(line) < 5000


NODE = re.compile(r'  n\d+(\[|\[\(|\(|\{\{)"[A-Za-z0-9 \-_./#;<>]*"(\]|\)\]|\)|\}\})')
OTHER = re.compile(
    r'flowchart LR|  subgraph z\d+\["[A-Za-z0-9 \-_./#;]*"\]|  end|  n\d+ -->(\|"[A-Za-z0-9 \-_./#;]*"\|)? n\d+'
    r"|  classDef (good|bad) [a-z0-9#:, -]+|  class n\d+ (good|bad)"
)


@pytest.mark.parametrize("snapshot", [*SNAPSHOTS.values(), HOSTILE_SNAPSHOT])
def test_each_line_of_a_chart_is_a_known_statement(snapshot):
    """So no name makes a statement, a directive or a link."""
    for line in topology.render(snapshot):
        assert NODE.fullmatch(line) or OTHER.fullmatch(line), line
        assert re.sub(r"<br/>", "", line).count("<") == 0


def test_a_label_has_entities_for_all_that_mermaid_reads():
    assert topology.label('a"b#c;d', "", "e:f`g<h>") == '"a#34;b#35;c#59;d<br/>e#58;f#96;g#60;h#62;"'
    assert len(topology.label("x" * 5000)) == topology.MAX_LABEL + len("#8230;") + 1


def test_zones():
    assert [topology.zone_of(one) for one in ("/eu/a", "/rack", "", "//")] == ["eu", "rack", "no zone", "no zone"]


def at_bound(brokers, bindings, topics):
    status = replace(SMALL, topics=tuple(replace(SMALL.topics[0], name=f"t-{one}") for one in range(topics)))
    return replace(
        WELL,
        brokers=tuple(broker(one, observed=(Observed("o", status),)) for one in range(brokers)),
        bindings=tuple(replace(BINDING, name=f"b-{one}") for one in range(bindings)),
    )


def test_a_chart_is_bounded_and_says_so():
    most = at_bound(topology.MAX_BROKERS, topology.MAX_BINDINGS, topology.MAX_TOPICS)
    full = "\n".join(topology.render(Snapshot("n", (most,))))
    assert [line for line in full.splitlines() if " more " in line and "more arrows" not in line] == []
    assert "t-19" in full
    more = at_bound(topology.MAX_BROKERS + 1, topology.MAX_BINDINGS + 1, topology.MAX_TOPICS + 1)
    text = "\n".join(topology.render(Snapshot("n", (more,))))
    for rest in ("and 1 more brokers", "and 1 more bindings", "and 1 more topics of streaming/orders"):
        assert rest in text
    many = topology.render(Snapshot("n", (more,) * (topology.MAX_POOLS + 3)))
    assert " more pools" in "\n".join(many)
    assert len(many) < 100 + topology.MAX_POOLS * 700


def test_a_chart_is_no_larger_than_mermaid_draws():
    """Mermaid's defaults: maxEdges 500, maxTextSize 50,000."""
    full = at_bound(topology.MAX_BROKERS, topology.MAX_BINDINGS, topology.MAX_TOPICS)
    for count in (1, 2, topology.MAX_POOLS, topology.MAX_POOLS + 3):
        lines = topology.render(Snapshot("n", (full,) * count))
        shown = sum("Pool streaming/orders" in line for line in lines)
        assert shown >= 1
        assert sum(" -->" in line for line in lines) <= 500
        assert len("\n".join(lines)) <= 50_000
        assert (f"and {count - shown} more pools" in "\n".join(lines)) is (shown < count)


@pytest.mark.parametrize(("brokers", "left_out"), [(topology.MAX_LINKS, False), (topology.MAX_LINKS + 1, True)])
def test_arrows_to_a_topic_are_bounded_and_say_so(brokers, left_out):
    text = "\n".join(topology.render(Snapshot("n", (at_bound(brokers, 1, 2),))))
    assert ("and 2 more arrows to topics of streaming/orders" in text) is left_out
    assert text.count("subscriptions ") == 2 * topology.MAX_LINKS


def test_the_document_is_json_and_has_the_states_of_brokers():
    document = json.loads(json.dumps(as_document(SNAPSHOTS["well"])))
    (pool,) = document["pools"]
    assert (pool["name"], pool["readyReplicas"], pool["nextSteps"]) == ("orders", 2, [])
    assert decode(pool["brokers"][0]["processes"][0]["status"]) == SMALL
    assert pool["bindings"][0]["matchedTopics"] == 7
    ill = as_document(SNAPSHOTS["ill"])
    assert ill["missingRights"][0]["resource"] == "pods/proxy"
    assert ill["otherBindings"][0]["pool"] == {"namespace": "other", "name": "p"}
    assert ill["pools"][0]["conditions"][2]["outdated"] is True


def test_nothing_to_do_for_a_pool_that_is_well():
    assert next_steps.of_pool(WELL) == []


def test_a_broker_that_runs_leads_to_its_logs():
    silent = broker(0, ready=False, restarts=1, observed=())
    (step,) = next_steps.of_pool(replace(WELL, brokers=(silent,)))
    assert step.endswith("Try: kubectl logs orders-0 -n streaming --previous")
    lost = replace(SMALL, source=replace(SMALL.source, connected=False, bindings_error="line 3"))
    steps = next_steps.of_pool(replace(WELL, brokers=(broker(0, observed=(Observed("orders-0", lost),)),)))
    assert "it cannot use the bindings: line 3" in steps[0]
    assert "the metadata store does not answer" in steps[1]


def test_without_a_report_the_operator_is_the_next_step():
    for conditions in ((), (ConditionView("Ready"),)):
        (step,) = next_steps.of_pool(replace(WELL, conditions=conditions, bindings=(), brokers=()))
        assert "does an operator run" in step
    old = replace(WELL, conditions=(replace(READY, outdated=True),))
    assert "describe an older spec" in next_steps.of_pool(old)[0]
    asleep = [
        replace(READY, type=kind, status=status, reason="Asleep", message="")
        for kind, status in (("Ready", "True"), ("LookupConfigured", "Unknown"), ("Asleep", "True"))
    ]
    awake = replace(READY, type="Asleep", status="False", reason="Awake", message="")
    assert next_steps.of_pool(replace(WELL, conditions=(*asleep, awake), brokers=())) == []


def test_steps_are_bounded():
    ill = [broker(one, ready=False, observed=()) for one in range(MAX_STEPS)]
    assert len(next_steps.of_pool(replace(WELL, brokers=tuple(ill)))) == MAX_STEPS
    steps = next_steps.of_pool(replace(WELL, brokers=(*ill, broker(99, ready=False, observed=()))))
    assert len(steps) == MAX_STEPS
    assert steps[-1] == "and 2 more"


def test_the_plugin_knows_every_condition_and_its_commands_reasons_that_exist():
    good_when_true = {
        "Ready", "LookupConfigured", "SourceReachable", "SourceResolved", "ExplicitLac", "ClusterRegistered",
        "LocalCursors", "CertificateIssued", "Accepted",
    }  # fmt: skip
    assert good_when_true | GOOD_WHEN_FALSE | NEVER_BAD == set(CONDITIONS)
    assert SAME_AS_OTHERS <= GOOD_WHEN_FALSE
    known = {(one.condition, one.reason) for one in (*OF_POOLS, *OF_BINDINGS, *OF_BOTH)}
    assert set(COMMANDS) <= known
    names = dict.fromkeys(("name", "namespace", "pool", "pool_namespace", "object"), "x")
    assert all(command.format_map(names).startswith("kubectl ") for command in COMMANDS.values())
