"""Comparison of the bindings that brokers hold with the desired ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from readonly_operator.api.binding_definition import MAX_LAGGING
from readonly_operator.assembly.broker_report import BindingStats, Lag
from readonly_operator.kube.status import Condition, ConditionStatus, listed
from readonly_operator.model.lookup import Entry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from readonly_operator.api.binding import Binding
    from readonly_operator.assembly.broker_report import BrokerReport
    from readonly_operator.model.lookup import LookupConfig

TYPE = "LookupConfigured"


@dataclass(frozen=True, slots=True)
class LookupState:
    """Bindings at the brokers of a pool.

    Attributes:
        wanted: the desired config of each broker.
        brokers: desired number of brokers.
        reports: reports of the existing ones.
        asleep: whether the pool sleeps (spec.scaleToZero).
    """

    wanted: LookupConfig
    brokers: int
    reports: Sequence[BrokerReport]
    asleep: bool = False

    def converged(self) -> bool:
        """Return whether every broker holds the desired config."""
        return self._applied() == self.brokers and len(self.reports) == self.brokers

    def behind(self) -> list[BrokerReport]:
        """Return brokers that answer and hold another config."""
        return [report for report in self.reports if report.reachable and report.revision != self.wanted.revision]

    def holders(self, binding: Binding) -> int:
        """Return how many brokers hold this generation of the binding."""
        return len(self._holders(binding))

    def serving(self, binding: Binding) -> int:
        """Return how many ready brokers hold this generation of the binding."""
        return sum(report.serving for report in self._holders(binding))

    @property
    def bookkeeper_instance(self) -> str:
        """Return the id of the BookKeeper cluster that all brokers report which know it; empty if none does, or they differ."""
        known = {report.bookkeeper_instance for report in self.reports} - {""}
        return known.pop() if len(known) == 1 else ""

    @property
    def ready(self) -> int:
        """Return how many brokers are ready and answer."""
        return sum(report.serving for report in self.reports)

    def refused(self, binding: Binding) -> bool:
        """Return whether a ready broker cannot use its config, and so lacks the binding."""
        wanted = Entry.of(binding)
        return any(report.serving and report.problem and wanted not in report.bindings for report in self.reports)

    def stats(self, binding: Binding) -> BindingStats:
        """Return the binding's statistics over all brokers that hold it."""
        said = [report.stats.get(binding.full_name, BindingStats()) for report in self._holders(binding)]
        known = [(one.topics, one.partitions or 0) for one in said if one.topics is not None]
        topics, partitions = max(known, default=(None, None))
        worst: dict[str, Lag] = {}
        for lag in (lag for one in said for lag in one.lag):
            before = worst.get(lag.topic)
            if before is None or before.entries < lag.entries:
                worst[lag.topic] = lag
        found = sorted(worst.values(), key=lambda lag: (-rounded(lag.entries), lag.topic))[:MAX_LAGGING]
        return BindingStats(
            topics, partitions, tuple(Lag(one.topic, one.subscription, rounded(one.entries)) for one in found)
        )

    def _holders(self, binding: Binding) -> list[BrokerReport]:
        wanted = Entry.of(binding)
        return [report for report in self.reports if wanted in report.bindings]

    def condition(self) -> Condition:
        """Return the pool's condition LookupConfigured."""
        count = len(self.wanted.bindings)
        bindings = f"{count} binding" + ("" if count == 1 else "s")
        if self.converged() and self.brokers:
            return Condition(
                TYPE, ConditionStatus.TRUE, "Held", f"{self.brokers} of {self.brokers} brokers hold {bindings}"
            )
        return self.shortfall(f"{self._applied()} of {self.brokers} brokers hold {bindings}")

    def shortfall(self, head: str) -> Condition:
        """Return LookupConfigured for brokers that lack bindings; the message starts with `head`."""
        if self.asleep:
            return Condition(TYPE, ConditionStatus.UNKNOWN, "Asleep", f"{head}: the pool sleeps")
        if self.brokers == 0:
            return Condition(TYPE, ConditionStatus.UNKNOWN, "NoBrokers", f"{head}: spec.replicas of the pool is 0")
        complaints = [
            f"{one.name} cannot use it: {one.problem}" for one in self.reports if one.reachable and one.problem
        ]
        if complaints:
            return Condition(TYPE, ConditionStatus.FALSE, "BrokerRefuses", f"{head}; {listed(complaints)}")
        behind = [f"{one.name} still holds revision {one.revision or 'none'}" for one in self.behind()]
        if behind:
            return Condition(
                TYPE,
                ConditionStatus.FALSE,
                "BrokersBehind",
                f"{head} (revision {self.wanted.revision}); {listed(behind)}",
            )
        silent = [f"{one.name} cannot be asked: {one.problem}" for one in self.reports if not one.reachable]
        missing = self.brokers - len(self.reports)
        if missing > 0:
            silent.append(f"{missing} not created yet")
        if missing < 0:
            silent.append(f"{-missing} more than wanted, about to end")
        return Condition(TYPE, ConditionStatus.UNKNOWN, "BrokersUnreachable", f"{head}; {listed(silent)}")

    def _applied(self) -> int:
        return sum(
            report.reachable and report.revision == self.wanted.revision and not report.problem
            for report in self.reports
        )


def rounded(entries: int) -> int:
    """Round a lag to two digits. An exact lag would change the status with every message."""
    step: int = 10 ** max(0, len(str(entries)) - 2)
    return entries // step * step
