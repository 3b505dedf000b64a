"""Report of a run: a table of the faults, and all violations."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from bench.document import machine
from longtests.chaos.observed import Faults
from longtests.chaos.runs import RunResult, summarize, table
from longtests.chaos.traces import document

if TYPE_CHECKING:
    from longtests.chaos.run import Outcome
    from longtests.chaos.verdict import Found, Violation

BEGIN: Final = "<!-- chaos: written by make -C lab chaos CHAOS_OPTIONS=--write -->"
END: Final = "<!-- end of chaos -->"
SOAK_BEGIN: Final = "<!-- soak: written by make -C lab soak CHAOS_OPTIONS=--write -->"
SOAK_END: Final = "<!-- end of soak -->"
_EXAMPLES: Final = 6
_LAST_FAULTS: Final = 6


def result(
    outcome: Outcome, minutes: float, *, local: bool = False, split: bool = False, gap: float = 0.0
) -> RunResult:
    """Return the result of a run that has just ended on this machine.

    Args:
        outcome: the run.
        minutes: duration of the faults.
        local: whether the pool kept the cursors.
        split: whether all brokers served each Shared and Key_Shared subscription.
        gap: average seconds between two faults; 0 for the default.
    """
    assert outcome.injector is not None
    faults = summarize(outcome.verdict, Faults(outcome.injector.done))
    day = time.strftime("%Y-%m-%d", time.gmtime())
    return RunResult(outcome.plan.seed, minutes, outcome.messages, faults, day, machine(), local, split, gap)


def lines(outcome: Outcome) -> list[str]:
    """Return the report of a run."""
    assert outcome.injector is not None
    verdict = outcome.verdict
    rows = [*table([result(outcome, outcome.seconds / 60)]), ""]
    rows.append(f"{'subscription':<30}{'sessions':>9}{'first':>9}{'again':>8}{'longest pause':>15}{'until':>14}")
    for name, counts in sorted(verdict.counts.items()):
        pause, until = verdict.longest.get(name, (0.0, 0.0))
        rows.append(
            f"{name:<30}{counts['sessions']:>9,}{counts['first']:>9,}{counts['again']:>8,}{pause:>13.1f} s{until:>14.3f}"
        )
    most = max(verdict.repeated.values(), default=0)
    rows += [
        f"messages               {outcome.messages:,}",
        f"faults                 {len(outcome.injector.done):,} in {outcome.seconds:.0f} s",
        f"skipped faults         {sum(outcome.injector.skipped.values()):,} {dict(outcome.injector.skipped) or ''}",
        f"repairs                {len(outcome.mended):,}",
        *(f"  {text}" for text in outcome.mended),
        f"most redeliveries      {most:,} after one fault in one subscription",
        f"concurrent consumers   {verdict.overlap:.1f} s",
    ]
    if outcome.traces is not None:
        before, after = (document(one) for one in outcome.traces)
        rows += [f"{name:<23}{after[name]} (at the start {before[name]})" for name in before]
    rows += [f"ERROR                  {text}" for text in outcome.wrong]
    rows += _evidence(outcome)
    rows += [f"histories and logs     {outcome.folder}", f"seed                   {outcome.plan.seed}"]
    rows.append("passed" if outcome.passed else f"FAILED: repeat with SEED={outcome.plan.seed}")
    return rows


def _evidence(outcome: Outcome) -> list[str]:
    """Return the violations, with examples and the faults before each."""
    assert outcome.injector is not None
    faults = Faults(outcome.injector.done)
    kinds: dict[tuple[str, Violation], list[Found]] = defaultdict(list)
    for found in outcome.verdict.found:
        kinds[found.subscription, found.violation].append(found)
    rows = [f"VIOLATIONS             {len(outcome.verdict.found):,}"]
    for (subscription, violation), examples in sorted(kinds.items()):
        rows.append(f"  {subscription}: {len(examples):,} {violation}")
        rows += [f"    {tuple(one.id)} {one.name} at {one.at:.3f} {one.text}" for one in examples[:_EXAMPLES]]
        last = faults.last(examples[0].at)
        rows += [
            f"      {fault.begin:.3f} to {fault.end:.3f}: {fault.text}"
            for fault in faults.all[max(0, last - _LAST_FAULTS + 1) : last + 1]
        ]
    return rows
