"""Report of a run, as text."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from longtests.churn.run import Outcome

_EXAMPLES: Final = 5


def lines(outcome: Outcome) -> list[str]:
    """Return a table of the subscriptions, and all violations."""
    verdict = outcome.verdict
    rows = [f"{'subscription':<34}{'sessions':>9}{'seeks':>7}{'first':>9}{'again':>8}{'in flight':>11}{'by owner':>10}"]
    for plan in outcome.plan.subscriptions:
        counts = verdict.counts.get(plan.name, Counter())
        rows.append(
            f"{plan.name:<34}{counts['opened']:>9,}{counts['sought']:>7,}{counts['first']:>9,}{counts['again']:>8,}"
            f"{len(verdict.in_flight.get(plan.name, [])):>11,}{outcome.by_owner.get(plan.name, 0):>10,}"
        )
    rows += [
        f"messages stored        {outcome.messages:,}",
        f"actions                {', '.join(f'{action} {n:,}' for action, n in sorted(outcome.done.items()))}",
        # Their session ended before the receipt arrived, and the message was delivered again.
        f"acks lost in flight    {sum(map(len, verdict.in_flight.values())):,}",
    ]
    rows += [
        f"handed over            {name}: {len(ids):,} messages" for name, ids in sorted(verdict.handed_over.items())
    ]
    rows += [f"passthrough            {name}: {reason}" for name, reason in sorted(outcome.excused.items())]
    rows += [f"sent by the owner      {name}: {count:,}" for name, count in sorted(outcome.unexcused.items())]
    rows += [f"backlog left           {name}: {count:,}" for name, count in sorted(outcome.backlogs.items())]
    rows += [f"error                  {fault}" for fault in outcome.faults]
    rows += [f"history                {outcome.history}", f"seed                   {outcome.plan.seed}"]
    kinds = Counter((violation.subscription, violation.fault) for violation in verdict.violations)
    rows.append(f"VIOLATIONS             {len(verdict.violations):,}")
    for (subscription, fault), count in sorted(kinds.items()):
        rows.append(f"  {subscription}: {count:,} {fault}")
        found = [one for one in verdict.violations if (one.subscription, one.fault) == (subscription, fault)]
        rows += [f"    {tuple(one.id)} at {one.at:.3f} {one.text}" for one in found[:_EXAMPLES]]
    return rows
