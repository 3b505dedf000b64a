"""Write results of benches into docs/explanation/performance.md, between marks, with JSON and plot in a folder beside it."""

from __future__ import annotations

import os
import platform
import time
from typing import TYPE_CHECKING, Any

from bench.paths import DOCUMENT, RESULTS
from bench.plot import draw
from devstack.common.results import save_results

if TYPE_CHECKING:
    from pathlib import Path

    from bench.figures import Report


def marks(name: str) -> tuple[str, str]:
    """Return the lines before and after a bench's part of the page."""
    return f"<!-- {name}: made by make bench -->", f"<!-- end of {name} -->"


def insert(document: str, name: str, made: str) -> str:
    """Return the page with a bench's part replaced.

    Raises:
        ValueError: the page has no marks of the bench.
    """
    begin, end = marks(name)
    before, found, rest = document.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found or not found_end:
        raise ValueError(f"docs/explanation/performance.md has no lines {begin} and {end}")
    return f"{before}{begin}\n{made}\n{end}{after}"


def has_place(name: str) -> bool:
    """Whether the page has a part for a bench."""
    return all(mark in DOCUMENT.read_text(encoding="utf-8") for mark in marks(name))


def machine() -> str:
    """Return a description of this machine."""
    return f"{os.cpu_count()} CPUs, {platform.machine()}, Python {platform.python_version()}"


def save(report: Report, name: str, title: str, settings: dict[str, Any], folder: Path) -> None:
    """Write JSON and plot of a bench."""
    folder.mkdir(parents=True, exist_ok=True)
    made = {
        "bench": name,
        "settings": settings,
        "machine": machine(),
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "table": [dict(zip(report.columns, row, strict=True)) for row in report.rows],
        "measured": report.raw,
    }
    save_results(folder / f"{name}.json", made)
    if report.bars:
        (folder / f"{name}.svg").write_text(draw(title, report.unit, report.bars), encoding="utf-8")


def write(report: Report, name: str, title: str, settings: dict[str, Any], how: str) -> None:
    """Write a result into the documentation.

    Args:
        report: result of the bench.
        name: the bench.
        title: title of its plot.
        settings: settings of the run, for JSON.
        how: the settings in words.
    """
    save(report, name, title, settings, RESULTS)
    parts = [f"{machine()}; {how}.", report.table()]
    if report.bars:
        parts.append(f"![{title}](performance/{name}.svg)")
    parts += report.notes
    parts.append(f"All measurements: [{name}.json](performance/{name}.json).")
    text = DOCUMENT.read_text(encoding="utf-8")
    DOCUMENT.write_text(insert(text, name, "\n\n".join(parts)), encoding="utf-8")
