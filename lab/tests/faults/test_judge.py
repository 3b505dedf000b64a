"""Lost, duplicated and disordered entries of a reader; pauses and lags; the table in its document."""

from pathlib import Path

import pytest
from readonly_engine.topic.position import Position

from longtests.faults.probes import Probe, Seen
from longtests.faults.run import Outcome, ProbeResult, judge
from longtests.faults.scenarios import SCENARIOS
from longtests.faults.table import BEGIN, END, table, write

STORED = [Position(1, number) for number in range(5)]
RECEIPTS = {position: float(position.entry_id) for position in STORED}


def probe(*numbers: int) -> Probe:
    return Probe("p", [Seen(Position(1, number), number + 0.5) for number in numbers])


def test_a_reader_that_saw_everything_once_in_order() -> None:
    assert judge(probe(0, 1, 2, 3, 4), STORED, RECEIPTS, 0.0, 5.0) == ProbeResult(1.0, 0.5, 0, 0, 0)


@pytest.mark.parametrize(
    ("numbers", "lost", "twice", "disorder"),
    [
        ((0, 1, 3, 4), 1, 0, 0),
        ((0, 1, 2, 2, 3, 4), 0, 1, 0),
        ((0, 1, 2, 1, 2, 3, 4), 0, 2, 0),
        ((0, 2, 1, 3, 4), 0, 0, 1),
        ((), 5, 0, 0),
    ],
)
def test_what_is_wrong_is_counted(numbers: tuple[int, ...], lost: int, twice: int, disorder: int) -> None:
    result = judge(probe(*numbers), STORED, RECEIPTS, 0.0, 5.0)
    assert (result.lost, result.twice, result.disorder) == (lost, twice, disorder)


def test_a_pause_counts_up_to_the_edges_of_the_fault() -> None:
    assert probe(0, 1, 4).longest_pause(0.0, 5.0) == 3.0
    assert probe(0, 1, 4).longest_pause(0.0, 10.0) == 5.5
    assert probe().longest_pause(2.0, 9.0) == 7.0
    assert probe(0, 1, 4).longest_pause(1.0, 2.0) == 0.5


def test_a_lag_is_from_the_receipt_to_the_first_delivery() -> None:
    late = Probe("p", [Seen(STORED[0], 0.1), Seen(STORED[1], 4.0), Seen(STORED[1], 9.0)])
    assert late.longest_lag(RECEIPTS) == 3.0
    early = Probe("p", [Seen(STORED[4], 1.0)])
    assert early.longest_lag(RECEIPTS) == 0.0


def test_a_probe_knows_its_furthest_entry() -> None:
    seen = Probe("p")
    seen.took(1, 5)
    seen.took(1, 3)
    assert seen.furthest == Position(1, 5)
    assert seen.positions == [Position(1, 5), Position(1, 3)]


def test_the_table_has_the_worst_of_each_fault(tmp_path: Path) -> None:
    good = Outcome(10, 1.0, {"TopicLog": ProbeResult(1.0, 0.1, 0, 0, 0), "consumer": ProbeResult(2.0, 0.2, 0, 3, 0)})
    bad = Outcome(20, 4.0, {"TopicLog": ProbeResult(5.0, 0.3, 1, 2, 1), "consumer": ProbeResult(1.0, 0.1, 0, 0, 0)})
    rows = table({SCENARIOS[0]: [good, bad]})
    cells = [cell.strip() for cell in rows[2].strip("|").split("|")]
    assert cells == [SCENARIOS[0].title, "2", "30", "4.00 s", "5.00 s", "2.00 s", "0.30 s", "1", "2", "3", "1"]
    document = tmp_path / "messages.md"
    document.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    write(document, rows)
    write(document, rows)
    assert document.read_text() == f"before\n{BEGIN}\n" + "\n".join(rows) + f"\n{END}\nafter\n"


def test_a_document_without_a_place_for_the_table_is_an_error(tmp_path: Path) -> None:
    document = tmp_path / "messages.md"
    document.write_text("no place\n")
    with pytest.raises(ValueError, match="has no lines"):
        write(document, ["row"])
