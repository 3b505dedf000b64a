"""Figures of the Spark bench: medians and spreads over the rounds, as a table and as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

ENGINE: Final = "pulsar-readonly"
KAFKA: Final = "Kafka source"
CONNECTOR: Final = "Pulsar connector"
CLIENTS: Final = (ENGINE, KAFKA, CONNECTOR)


@dataclass(frozen=True, slots=True)
class Round:
    """One read.

    Attributes:
        rows: number of messages.
        size: bytes of a payload.
        seconds: elapsed time.
        spark_cpu: CPU seconds of Spark: its JVM and all Python processes that it started.
        server_cpu: CPU seconds of the servers: broker, bookies and ZooKeeper, or Kafka.
    """

    rows: int
    size: int
    seconds: float
    spark_cpu: float
    server_cpu: float

    @property
    def rows_per_core_second(self) -> float:
        """Rows per CPU second of all processes together."""
        return self.rows / (self.spark_cpu + self.server_cpu)


@dataclass(frozen=True, slots=True)
class Result:
    """The rounds of one client with one topic and one sink.

    Attributes:
        case: the topic.
        sink: sink of the rows.
        client: one of CLIENTS.
        rounds: the measured rounds.
    """

    case: str
    sink: str
    client: str
    rounds: tuple[Round, ...]

    def middle(self, name: str) -> float:
        """Return the median of an attribute of the rounds."""
        return median(float(getattr(one, name)) for one in self.rounds)

    @property
    def spread(self) -> float:
        """(Maximum - minimum) / median of rows per core-second."""
        values = [one.rows_per_core_second for one in self.rounds]
        return (max(values) - min(values)) / median(values)


def table(results: Sequence[Result]) -> str:
    """Return the table as Markdown. The last column compares rows per core-second."""
    ours = {(r.case, r.sink): r.middle("rows_per_core_second") for r in results if r.client == ENGINE}
    lines = [
        (
            "| topic | sink | source | rows/s | MB/s | rows per core-second | spread | CPU of Spark | CPU of the servers | "
            "ratio, pulsar-readonly to source |"
        ),
        "|---|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for r in results:
        rate = median(one.rows / one.seconds for one in r.rounds)
        core = r.middle("rows_per_core_second")
        ahead = "" if r.client == ENGINE else f"{ours[r.case, r.sink] / core:.2f}"
        lines.append(
            f"| {r.case} | {r.sink} | {r.client} | {rate:,.0f} | {rate * r.rounds[0].size / 1e6:,.0f} | {core:,.0f} "
            f"| {r.spread:.0%} | {r.middle('spark_cpu'):.1f} s | {r.middle('server_cpu'):.1f} s | {ahead} |"
        )
    return "\n".join(lines)


def figures(results: Sequence[Result], **about: Any) -> dict[str, Any]:
    """Return all rounds, for JSON."""
    return {**about, "results": [asdict(result) for result in results]}


def results_of(found: Sequence[dict[str, Any]]) -> list[Result]:
    """Return the results of several runs, each from `figures`; a later run replaces the same result of an earlier one."""
    kept: dict[tuple[str, str, str], Result] = {}
    for one in found:
        for result in one["results"]:
            rounds = tuple(Round(**values) for values in result["rounds"])
            kept[result["case"], result["sink"], result["client"]] = Result(**{**result, "rounds": rounds})
    return list(kept.values())
