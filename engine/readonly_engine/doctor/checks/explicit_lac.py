"""Check of explicit LAC: the owner brokers' setting, and the last confirmed entry of topics as bookies have it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from readonly_engine.doctor.checks.failure import TOKEN_FILE, superuser_by
from readonly_engine.doctor.checks.finding import Finding, ok, warn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CHECK: Final = "explicit LAC"
SETTING: Final = "bookkeeperExplicitLacIntervalInMills"
LONG_INTERVAL_MS: Final = 1000

_REMEDY: Final = (
    f"set {SETTING} of the owner brokers to 200 and restart them; without it the pool asks the owner for newest entries"
)


@dataclass(frozen=True, slots=True)
class LacSample:
    """The end of an open ledger, as its bookies have it at one time.

    Attributes:
        at_s: the time, in seconds of any clock.
        lac: last confirmed entry; -1 for none.
        last_entry: last entry, confirmed or not.
        explicit: whether bookies have an explicit LAC of the ledger.
    """

    at_s: float
    lac: int
    last_entry: int
    explicit: bool


@dataclass(frozen=True, slots=True)
class TopicLac:
    """Samples of one topic's newest ledger.

    Attributes:
        topic: the topic.
        open: whether its newest ledger is open; other ledgers have no explicit LAC.
        samples: in the order of time.
        problem: the reason why there are none; empty for none.
    """

    topic: str
    open: bool = False
    samples: Sequence[LacSample] = ()
    problem: str = ""


def confirmation_s(samples: Sequence[LacSample]) -> tuple[float | None, float]:
    """Return how long the confirmation of an entry took, and for how long the newest entry has been unconfirmed, in seconds.

    An entry counts if no later one came before its confirmation: a later entry confirms it, too.

    Returns:
        The longest observed time, None without one; and 0 if the newest entry is confirmed.
    """
    longest: float | None = None
    entry, since = -1, 0.0
    waiting = False
    for sample in samples:
        if sample.last_entry != entry:
            entry, since = sample.last_entry, sample.at_s
            waiting = sample.lac < sample.last_entry
        elif waiting and sample.lac >= entry:
            waiting = False
            longest = max(longest or 0.0, sample.at_s - since)
    return longest, samples[-1].at_s - since if waiting else 0.0


def lac_findings(
    intervals: Mapping[str, int | None], topics: Sequence[TopicLac], option: str = TOKEN_FILE
) -> list[Finding]:
    """Return the findings about explicit LAC.

    Args:
        intervals: setting of each broker whose configuration is known, in ms; None if it has no such setting.
        topics: the topics that were sampled.
        option: option of the pool's credentials.
    """
    found = _settings(intervals) + [_topic(one) for one in topics]
    if found:
        return found
    return [
        warn(
            CHECK,
            "unknown: the brokers' configuration cannot be read, and no topic was measured",
            f"name an open topic by --topic, or {superuser_by(option)}",
        )
    ]


def _settings(intervals: Mapping[str, int | None]) -> list[Finding]:
    found = []
    for interval in sorted(set(intervals.values()), key=lambda one: one or 0):
        where = ", ".join(sorted(broker for broker, its in intervals.items() if its == interval))
        if interval is None or interval <= 0:
            found.append(warn(CHECK, f"off ({SETTING} is {interval or 0})", _REMEDY, where))
        elif interval > LONG_INTERVAL_MS:
            found.append(
                warn(
                    CHECK,
                    f"every {interval} ms: the newest message of an idle topic is readable from bookies after up to "
                    f"{2 * interval} ms",
                    f"set {SETTING} of the owner brokers to {LONG_INTERVAL_MS} or less",
                    where,
                )
            )
        else:
            found.append(ok(CHECK, f"every {interval} ms", where))
    return found


def _topic(one: TopicLac) -> Finding:
    if one.problem:
        return warn(CHECK, f"not measured: {one.problem}", "correct the errors of topics and bookies first", one.topic)
    if not one.open or not one.samples:
        return ok(CHECK, "nothing to measure: the topic has no open ledger", one.topic)
    took, unconfirmed = confirmation_s(one.samples)
    last = one.samples[-1]
    if any(sample.explicit for sample in one.samples):
        if unconfirmed > 2 * LONG_INTERVAL_MS / 1000:
            return warn(
                CHECK,
                f"bookies have one, but entry {last.last_entry} is unconfirmed after {unconfirmed:.1f} s",
                f"set {SETTING} of the owner brokers to {LONG_INTERVAL_MS} or less",
                one.topic,
            )
        measured = "" if took is None else f"; an entry was confirmed within {took:.2f} s"
        return ok(CHECK, f"bookies have one, up to entry {last.lac} of {last.last_entry}{measured}", one.topic)
    if last.last_entry < 0:
        return ok(CHECK, "nothing to measure: the open ledger has no entry", one.topic)
    if took is not None and not unconfirmed:
        return ok(CHECK, f"an entry was confirmed within {took:.2f} s", one.topic)
    return warn(
        CHECK,
        f"bookies have none; entry {last.last_entry} of the open ledger is unconfirmed"
        if last.lac < last.last_entry
        else "bookies have none of the open ledger",
        _REMEDY,
        one.topic,
    )
