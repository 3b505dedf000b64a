"""What clients printed, what a cluster has, and what is left of it in the end: no servers, only comparisons."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

WATCHED: Final = ("/pulsar-readonly", "/admin")
"""Nodes of the metadata store below which nothing may be left: claims, brokers, clusters, policies."""

KEPT: Final = frozenset({"/pulsar-readonly", "/pulsar-readonly/pools"})
"""Empty nodes that stay, as docs/how-to/adopt.md says: another pool may use them."""

MARK: Final = "pulsar-readonly"
"""Begin of the names in the metadata of consumers by which brokers of a pool know each other's."""

_NODE: Final = re.compile(r"^/[^\s]*$", re.MULTILINE)


def lines(log: str) -> Iterator[dict[str, Any]]:
    """Yield the lines of clients_program.py in a pod's log; the client library's own lines are left out."""
    for text in log.splitlines():
        if text.startswith("{"):
            try:
                found = json.loads(text)
            except ValueError:
                continue  # the end of a log that is being written
            if isinstance(found, dict):
                yield found


def is_ready(log: str) -> bool:
    """Return whether all clients of a log are connected."""
    return any("ready" in one for one in lines(log))


@dataclass(frozen=True, slots=True)
class Sent:
    """Messages of a publisher.

    Attributes:
        count: sent so far; their numbers are 0 to count - 1.
        failed: those without a receipt of the broker.
        ended: whether no more will come, and all receipts are there.
    """

    count: int = 0
    failed: int = 0
    ended: bool = False


def sent(log: str) -> Sent:
    """Return what a publisher last said."""
    found = [one for one in lines(log) if "sent" in one]
    return Sent(found[-1]["sent"], found[-1]["failed"], found[-1].get("ended", False)) if found else Sent()


def received(*logs: str) -> dict[str, Counter[int]]:
    """Return how often each subscription got each number, over the logs of several pods."""
    found: dict[str, Counter[int]] = {}
    for log in logs:
        for one in lines(log):
            if "subscription" in one:
                found.setdefault(one["subscription"], Counter())[one["number"]] += 1
    return found


def newest(got: Mapping[str, Counter[int]]) -> int:
    """Return the highest number that any subscription got; -1 for none."""
    return max((max(numbers) for numbers in got.values() if numbers), default=-1)


@dataclass(frozen=True, slots=True)
class Losses:
    """Messages of one subscription, compared with those that were published.

    Attributes:
        received: different ones.
        lost: numbers that never came, sorted.
        again: those that came more than once, sorted.
        unknown: numbers that nobody published, sorted.
    """

    received: int
    lost: tuple[int, ...]
    again: tuple[int, ...]
    unknown: tuple[int, ...]


def losses(count: int, got: Mapping[str, Counter[int]], subscriptions: Iterable[str]) -> dict[str, Losses]:
    """Compare the messages of each subscription with the published numbers.

    Args:
        count: number of published messages.
        got: by subscription; one that is missing got nothing.
        subscriptions: all of them.
    """
    published = set(range(count))
    found = {}
    for name in subscriptions:
        numbers = got.get(name, Counter())
        found[name] = Losses(
            received=len(published & numbers.keys()),
            lost=tuple(sorted(published - numbers.keys())),
            again=tuple(sorted(number for number, times in numbers.items() if times > 1)),
            unknown=tuple(sorted(numbers.keys() - published)),
        )
    return found


def verdicts(found: Mapping[str, Losses], count: int, failed: int) -> list[str]:
    """Return what is wrong with a run; empty if every published message came to each subscription."""
    wrong = [] if count else ["no message was published"]
    if failed:
        wrong.append(f"{failed} of {count} messages were not published")
    for name, one in found.items():
        if one.lost:
            wrong.append(f"{name}: {len(one.lost)} of {count} messages lost, such as {one.lost[:5]}")
        if one.unknown:
            wrong.append(f"{name}: {len(one.unknown)} messages that nobody published, such as {one.unknown[:5]}")
    return wrong


def znodes(text: str) -> set[str]:
    """Return the watched paths in the output of `zookeeper-shell ls -R /`, which has lines of its log too."""
    every = _NODE.findall(text)
    return {path for path in every if path in WATCHED or path.startswith(tuple(f"{root}/" for root in WATCHED))}


def live(paths: Iterable[str], pool: str) -> list[str]:
    """Return the nodes of a pool's brokers and claims, which end with their sessions."""
    folder = f"/pulsar-readonly/pools/{pool}"
    return sorted(path for path in paths if path.startswith((f"{folder}/brokers/", f"{folder}/claims/")))


def objects(text: str) -> set[str]:
    """Return the objects in lines of kubectl's custom columns: kind, namespace, name."""
    return {" ".join(words) for line in text.splitlines() if (words := line.split())}


def left(before: Iterable[str], after: Iterable[str], kept: Iterable[str] = ()) -> list[str]:
    """Return what is there after and was not before, sorted, and what is gone with the word `gone`.

    Args:
        before: names.
        after: names.
        kept: those that may stay.
    """
    old, new = set(before), set(after)
    return sorted(new - old - set(kept)) + [f"gone: {name}" for name in sorted(old - new)]


def marks(stats: Mapping[str, Any]) -> list[str]:
    """Return the consumers in a topic's statistics that a broker of a pool has opened."""
    return sorted(
        f"{subscription}: {consumer.get('consumerName', '')}"
        for subscription, one in stats.get("subscriptions", {}).items()
        for consumer in one.get("consumers", [])
        if any(name.startswith(MARK) for name in consumer.get("metadata", {}))
    )
