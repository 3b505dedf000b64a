"""Comparing what brokers hold with what bindings say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from readonly_operator.status import Condition, Truth, listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from readonly_operator.api.binding import Binding
    from readonly_operator.brokers import BrokerReport
    from readonly_operator.desired.lookup import LookupConfig

TYPE = "LookupConfigured"


@dataclass(frozen=True, slots=True)
class LookupState:
    """What the brokers of a pool say.

    Attributes:
        wanted: the config that each is to hold.
        brokers: how many the pool is to have.
        reports: what those that exist say.
    """

    wanted: LookupConfig
    brokers: int
    reports: Sequence[BrokerReport]

    def converged(self) -> bool:
        """Whether every broker holds the wanted config."""
        return self._holding() == self.brokers and len(self.reports) == self.brokers

    def behind(self) -> list[BrokerReport]:
        """Brokers that answer and hold something else."""
        return [report for report in self.reports if report.asked and report.revision != self.wanted.revision]

    def holders(self, binding: Binding) -> int:
        """How many brokers hold this binding with these topics."""
        return sum(
            (binding.full_name, binding.topics) in {(name, tuple(sorted(topics))) for name, topics in report.bindings}
            for report in self.reports
        )

    def condition(self) -> Condition:
        """LookupConfigured of the pool."""
        count = len(self.wanted.bindings)
        bindings = f"{count} binding" + ("" if count == 1 else "s")
        if self.brokers == 0:
            return Condition(TYPE, Truth.UNKNOWN, "NoBrokers", f"spec.replicas is 0: no broker can hold the {bindings}")
        if self.converged():
            return Condition(TYPE, Truth.TRUE, "Held", f"{self.brokers} of {self.brokers} brokers hold {bindings}")
        head = f"{self._holding()} of {self.brokers} brokers hold {bindings}"
        complaints = [
            f"{report.name} cannot use it: {report.problem}"
            for report in self.reports
            if report.asked and report.problem
        ]
        if complaints:
            return Condition(TYPE, Truth.FALSE, "BrokerRefuses", f"{head}; {listed(complaints)}")
        behind = [f"{report.name} still holds revision {report.revision or 'none'}" for report in self.behind()]
        if behind:
            return Condition(
                TYPE, Truth.FALSE, "BrokersBehind", f"{head} (revision {self.wanted.revision}); {listed(behind)}"
            )
        silent = [f"{report.name} cannot be asked: {report.problem}" for report in self.reports if not report.asked]
        missing = self.brokers - len(self.reports)
        if missing > 0:
            silent.append(f"{missing} not created yet")
        return Condition(TYPE, Truth.UNKNOWN, "BrokersSilent", f"{head}; {listed(silent)}")

    def _holding(self) -> int:
        return sum(
            report.asked and report.revision == self.wanted.revision and not report.problem for report in self.reports
        )
