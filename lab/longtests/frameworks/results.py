"""The kept results of runs: one record for each program, type and case, in a JSON file."""

from __future__ import annotations

import dataclasses
import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from devstack.common.results import save_results
from longtests.frameworks.judge import Counts, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from longtests.frameworks.cases import Case
    from longtests.frameworks.program import Program

_TEXT = 300


@dataclass(frozen=True, slots=True)
class Result:
    """Result of one run.

    Attributes:
        program: name of the program.
        version: version of its package.
        type: subscription type, or Reader.
        case: name of the case.
        date: its day in UTC.
        machine: processors and Python of its machine.
        seconds: its duration.
        tries: 2 if the first try had faults.
        counts: counts that are not 0.
        faults: what a consumer of Pulsar must not observe.
        admin: requests to the admin API, `METHOD PATH STATUS` with their numbers.
        build_error: why the program could not be built; empty if it could.
    """

    program: str
    version: str
    type: str
    case: str
    date: str
    machine: str
    seconds: float = 0.0
    tries: int = 1
    counts: dict[str, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    admin: dict[str, int] = field(default_factory=dict)
    build_error: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """What a later result of the same run has, too."""
        return self.program, self.type, self.case

    @property
    def verdict(self) -> Verdict:
        """Counts and faults, for comparisons."""
        return Verdict(Counts(**self.counts), tuple(self.faults))

    def after(self, first: Result) -> Result:
        """Return this result as that of a second try."""
        return dataclasses.replace(self, tries=first.tries + 1)

    def line(self) -> str:
        """Return the result in one line."""
        if self.build_error:
            return f"not built: {self.build_error}"
        return f"{'; '.join(self.faults) or 'passed'}; {self.verdict.counts.words()}; {self.seconds:.0f} s"


def result_of(
    program: Program, type_: str, case: Case, verdict: Verdict, admin: dict[str, int], seconds: float, machine: str
) -> Result:
    """Return the result of a run that has ended."""
    counts = {name: value for name, value in dataclasses.asdict(verdict.counts).items() if value}
    return Result(
        program=program.name,
        version=program.version,
        type=type_,
        case=case.name,
        date=_today(),
        machine=machine,
        seconds=seconds,
        counts=counts,
        faults=list(verdict.faults),
        admin=dict(sorted(admin.items())),
    )


def failed_build(program: Program, type_: str, case: Case, error: str, machine: str) -> Result:
    """Return the result of a program that could not be built."""
    text = " ".join(error.split())[:_TEXT]
    return Result(
        program.name, program.version, type_, case.name, _today(), machine, faults=["not built"], build_error=text
    )


def load(path: Path) -> list[Result]:
    """Return the kept results; none if there is no file."""
    if not path.exists():
        return []
    return [Result(**row) for row in json.loads(path.read_text(encoding="utf-8"))]


def merge(kept: Iterable[Result], result: Result) -> list[Result]:
    """Return the results with a new one, which replaces that of the same run."""
    return [each for each in kept if each.key != result.key] + [result]


def save(path: Path, results: Sequence[Result]) -> None:
    """Write results, sorted, so that a new result changes its own line only. Empty and usual values are left out."""
    rows = [_record(result) for result in sorted(results, key=lambda each: each.key)]
    save_results(path, rows)


def _record(result: Result) -> dict[str, object]:
    usual = Result("", "", "", "", "", "")
    return {
        name: value
        for name, value in dataclasses.asdict(result).items()
        if name in {"program", "version", "type", "case", "date", "machine"} or value != getattr(usual, name)
    }


def _today() -> str:
    return time.strftime("%Y-%m-%d", time.gmtime())
