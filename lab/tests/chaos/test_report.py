"""The table of `make -C lab chaos`."""

import json
import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

from longtests.chaos.net import NETWORK, Network, _plain
from longtests.chaos.observed import Done
from longtests.chaos.plan import NODES, make_plan
from longtests.chaos.report import lines, result
from longtests.chaos.run import Outcome
from longtests.chaos.runs import FaultResult, RunResult, add, load, summary, table
from longtests.chaos.verdict import Found, Verdict, Violation
from longtests.churn.history import Id


def outcome() -> Outcome:
    kill = Done(10.0, 12.0, "kill -9: owner", "10.0 s: kill -9 broker-0 for 2.0 s", writable=True)
    cut = Done(20.0, 22.0, "silent packet loss: client, owner", "20.0 s: silent packet loss", writable=True)
    verdict = Verdict(
        found=[
            Found(Violation.LOST, "t/s", Id(1, 5), "m5", 11.0),
            Found(Violation.TOPIC_ORDER, "t/s", Id(1, 6), "m6", 21.0),
            Found(Violation.TWO_CONCURRENT, "t/s", Id(1, 7), "m7", 21.5),
        ],
        repeated=Counter({(0, "t/s"): 4, (0, "t/u"): 2}),
        pauses={0: 12.25, 1: 0.5},
    )
    injector = SimpleNamespace(done=[cut, kill], skipped=Counter())
    return Outcome(make_plan(7, 60), Path("/x"), verdict, messages=3, injector=injector)  # type: ignore[arg-type]


def test_each_kind_of_fault_has_a_row_over_all_runs() -> None:
    rows = table([result(outcome(), 1), result(outcome(), 1)])
    assert rows[2] == "| kill -9: owner | 2 | 2 | 12 | 0 | 0 | 12.2 s |"
    assert rows[3] == "| silent packet loss: client, owner | 2 | 0 | 0 | 2 | 2 | 0.5 s |"
    assert rows[4] == "| all | 4 | 2 | 12 | 2 | 2 | 12.2 s |"


def test_results_are_kept_by_seed_and_a_repeated_run_replaces_its_own(tmp_path: Path) -> None:
    file = tmp_path / "testing" / "chaos.json"
    assert load(file) == []
    first = result(outcome(), 15)
    other = RunResult(3, 10, 20, {"unload of a topic": FaultResult(5, repeated=1, pause=2.5)})
    assert add(file, [first]) == [first]
    assert add(file, [other]) == [other, first] == load(file)
    again = RunResult(7, 12, 30, {})
    assert add(file, [again]) == [other, again] == load(file)
    local = RunResult(7, 12, 40, {"kill -9: owner": FaultResult(2)}, local=True)
    assert add(file, [local]) == [other, again, local] == load(file)
    text = "7 faults and 90 messages in 3 runs, 2 of the faults with local cursors. Seeds: 3 (10 minutes), 7 (12 minutes), "
    assert summary(load(file)) == text + "7 (12 minutes, local cursors)."
    both = RunResult(8, 3.5, 0, local=True, split=True, gap=0.85)
    assert str(both) == "8 (3.5 minutes, local cursors, split, a fault per 0.85 s)"


def test_a_result_has_its_day_and_machine_and_older_ones_have_none(tmp_path: Path) -> None:
    made = result(outcome(), 15)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", made.date)
    assert re.fullmatch(r"\d+ CPUs, \S+, Python [\d.]+\S*", made.machine)
    older = {"seed": 3, "minutes": 10, "messages": 20, "faults": {}}
    (tmp_path / "results.json").write_text(json.dumps([older]))
    assert load(tmp_path / "results.json") == [RunResult(3, 10, 20, {})]


def test_a_failure_shows_the_seed_the_message_and_the_faults_before() -> None:
    text = "\n".join(lines(outcome()))
    assert "FAILED: repeat with SEED=7" in text
    assert "t/s: 1 never delivered" in text
    assert "(1, 5, -1) m5 at 11.000" in text
    assert "10.000 to 12.000: 10.0 s: kill -9 broker-0 for 2.0 s" in text
    assert "/x" in text


def test_every_node_has_an_address_of_the_test_network_and_a_namespace() -> None:
    network = Network(NODES)
    assert len(set(network.addresses.values())) == len(NODES) + 1
    assert all(address.startswith(f"{NETWORK}.") for address in network.addresses.values())
    assert network.site("ro-1").launcher == ("nsenter", "--net=/run/netns/prchaos-ro-1", "--")


def test_addresses_of_javas_sockets_are_those_of_everybody() -> None:
    assert _plain("[::ffff:198.18.17.1]:3181") == _plain("198.18.17.1:3181") == "198.18.17.1:3181"
