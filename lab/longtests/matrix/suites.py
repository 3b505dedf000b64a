"""The suites of the matrix: command line, and the counts in the output."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

ORACLE_SEEDS: Final = (2026, 2031)
"""An even and an odd one: bookies have all entries of a ledger, or share them."""

CHURN_SEED: Final = 2027

COMPAT_CLIENTS: Final = ("python-3.13.0", "java-4.2.4", "go-0.19.0")
"""The newest client of each language."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of the long suites.

    Attributes:
        minutes: duration of the churn.
        entries: entries of the oracle.
    """

    minutes: float
    entries: int


@dataclass(frozen=True, slots=True)
class Suite:
    """One suite.

    Attributes:
        name: its name, for `--suite`.
        argv: command line by release, such as `4.0.8` or `4.0.8+oxia`, and sizes. `python` is the interpreter of the matrix.
        figures: counts of its report, from its output; empty if it has no report.
        secure: whether it runs on stores with TLS and logins, too.
    """

    name: str
    argv: Callable[[str, Sizes], list[str]]
    figures: Callable[[str], str]
    secure: bool = False


def _value(output: str, label: str) -> str | None:
    match = re.search(rf"^{re.escape(label)}\s+([\d,]+)", output, re.MULTILINE)
    return match[1] if match else None


def _labelled(output: str, labels: dict[str, str]) -> str:
    found = [(value, text) for label, text in labels.items() if (value := _value(output, label)) is not None]
    return ", ".join(f"{value} {text}" for value, text in found)


def integration_figures(output: str) -> str:
    """Return the line of totals of `tests.suites`, and the number of second tries."""
    total = re.search(r"^total: (.*) in \d+ min \d+ s$", output, re.MULTILINE)
    if total is None:
        return ""
    again = re.search(r"^(passed alone|failed again)[^:]*: (.*)$", output, re.MULTILINE)
    second = f"; second try of {len(again[2].split())}: {again[1]}" if again else ""
    return total[1] + second


def oracle_figures(output: str) -> str:
    """Return the numbers of entries and differences."""
    return _labelled(
        output,
        {
            "entries in storage": "entries in storage",
            "entries delivered by their owner": "delivered by the owner",
            "DIFFERENCES": "differences",
        },
    )


def churn_figures(output: str) -> str:
    """Return the numbers of messages, violations and acks in flight."""
    return _labelled(
        output,
        {
            "messages stored": "messages",
            "VIOLATIONS": "violations",
            "acks lost in flight": "acks lost in flight",
        },
    )


def faults_figures(output: str) -> str:
    """Return sums and maxima over the rows of the table of faults."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in output.splitlines() if line.startswith("|")
    ]
    if not rows:
        return ""
    head, _, *faults = rows
    columns = {name: [row[index] for row in faults] for index, name in enumerate(head)}

    def total(name: str) -> int:
        return sum(int(value.replace(",", "")) for value in columns[name])

    runs, entries = total("runs"), total("entries")
    sums = ", ".join(f"{total(name)} {name}" for name in ("lost", "duplicated", "redelivered", "out of order"))
    longest = max(float(value.removesuffix(" s")) for value in columns["Reader"])
    return f"{len(faults)} faults, {runs} runs, {entries:,} entries; {sums}; longest pause of a Reader {longest:.1f} s"


def compat_figures(output: str) -> str:
    """Return the first line of the table."""
    match = re.search(r"^(\d+ features, .*? failed at the owner)", output, re.MULTILINE)
    return match[1] if match else ""


def demo_figures(output: str) -> str:
    """Return sums over the subscriptions of the demo's table."""
    rows = [
        [int(cell) for cell in row.split()]
        for row in re.findall(r"^\S+ +(?:Exclusive|Shared) +([\d ]+)$", output, re.MULTILINE)
    ]
    took = re.search(r"^The demo took (\d+) s", output, re.MULTILINE)
    if not rows or took is None:
        return ""
    _, _, received, _, lost, duplicated, _, by_owner = (sum(column) for column in list(zip(*rows, strict=True))[:8])
    counts = f"{len(rows)} subscriptions, {received:,} messages received, {lost} lost, {duplicated} duplicated"
    return f"{counts}, {by_owner} sent by the owner; {took[1]} s"


def variables(release: str) -> list[str]:
    """Return the variables of make for a release; `4.0.8+oxia` is the release 4.0.8 on Oxia."""
    version, _, metadata = release.partition("+")
    return [f"PULSAR={version}", *([f"METADATA={metadata}"] if metadata else [])]


_LAB: Final = ("make", "-C", "lab")


def _oracle(seed: int) -> Suite:
    return Suite(
        f"oracle-{seed}",
        lambda release, sizes: [*_LAB, "oracle", f"SEED={seed}", f"ENTRIES={sizes.entries}", *variables(release)],
        oracle_figures,
    )


def _integration(name: str, selected: str, *, secure: bool = False) -> Suite:
    argv = ["python", "-m", "tests.suites", "--integration", "-m", selected]
    return Suite(name, lambda _, __: argv, integration_figures, secure)


SUITES: Final = (
    _integration("integration", "not slow", secure=True),
    _integration("integration-short", "not slow and not nightly"),
    Suite("demo", lambda release, _: ["make", "clean-demo", "demo-kubernetes", *variables(release)], demo_figures),
    *(_oracle(seed) for seed in ORACLE_SEEDS),
    Suite(
        "churn",
        lambda release, sizes: [
            *_LAB,
            "churn",
            f"SEED={CHURN_SEED}",
            f"MINUTES={sizes.minutes:g}",
            *variables(release),
        ],
        churn_figures,
    ),
    Suite(
        "churn-local",
        lambda release, sizes: [
            *_LAB,
            "churn",
            f"SEED={CHURN_SEED}",
            f"MINUTES={sizes.minutes:g}",
            "CHURN_OPTIONS=--local-cursors",
            *variables(release),
        ],
        churn_figures,
    ),
    Suite(
        "faults",
        lambda release, _: [*_LAB, "faults", "FAULTS_OPTIONS=--runs 1", *variables(release)],
        faults_figures,
    ),
    Suite(
        "compat",
        lambda release, _: [
            *_LAB,
            "compat",
            f"COMPAT_OPTIONS=--clients {' '.join(COMPAT_CLIENTS)}",
            *variables(release),
        ],
        compat_figures,
    ),
)
