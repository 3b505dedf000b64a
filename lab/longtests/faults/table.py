"""The table of faults, for the report and docs/testing/messages.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from longtests.faults.run import CONSUMER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from longtests.faults.run import Outcome
    from longtests.faults.scenarios import Scenario

BEGIN: Final = "<!-- faults: written by make -C lab faults FAULTS_OPTIONS=--write -->"
END: Final = "<!-- end of faults -->"


def table(outcomes: Mapping[Scenario, Sequence[Outcome]]) -> list[str]:
    """Return a table with a row for each fault, with its worst values over all runs, in Markdown."""
    names = list(dict.fromkeys(name for runs in outcomes.values() for run in runs for name in run.probes))
    head = [
        "fault",
        "runs",
        "entries",
        "writer",
        *names,
        "latest delivery",
        "lost",
        "duplicated",
        "redelivered",
        "out of order",
    ]
    rows = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for scenario, runs in outcomes.items():
        results = [(name, result) for run in runs for name, result in run.probes.items()]
        cells = [
            scenario.title,
            str(len(runs)),
            f"{sum(run.entries for run in runs):,}",
            f"{max(run.writer_pause for run in runs):.2f} s",
            *(f"{max(r.pause for n, r in results if n == name):.2f} s" for name in names),
            f"{max(r.lag for _, r in results):.2f} s",
            str(sum(r.lost for _, r in results)),
            str(sum(r.twice for n, r in results if n != CONSUMER)),
            str(sum(r.twice for n, r in results if n == CONSUMER)),
            str(sum(r.disorder for _, r in results)),
        ]
        rows.append("| " + " | ".join(cells) + " |")
    return rows


def write(path: Path, rows: Sequence[str], marks: tuple[str, str] = (BEGIN, END)) -> None:
    """Write a table between its two marks in a document.

    Raises:
        ValueError: the document has no such marks.
    """
    text = path.read_text(encoding="utf-8")
    begin, end = marks
    before, found, rest = text.partition(begin)
    _, ended, after = rest.partition(end)
    if not found or not ended:
        raise ValueError(f"{path} has no lines {begin!r} and {end!r}")
    path.write_text(f"{before}{begin}\n" + "\n".join(rows) + f"\n{end}{after}", encoding="utf-8")
