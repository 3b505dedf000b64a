"""Write results of benches into docs/explanation/performance*.md, between marks, with JSON and plot in a folder beside it."""

from __future__ import annotations

import os
import platform
import time
from typing import TYPE_CHECKING, Any

from bench.paths import PAGES, RESULTS
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
        raise ValueError(f"the page has no lines {begin} and {end}")
    return f"{before}{begin}\n{made}\n{end}{after}"


def page_of(name: str) -> Path | None:
    """Return the page with a part for a bench; None without one."""
    return next((page for page in PAGES if all(mark in page.read_text(encoding="utf-8") for mark in marks(name))), None)


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
    page = page_of(name)
    if page is None:
        raise ValueError(f"no page has the lines {' and '.join(marks(name))}: {', '.join(one.name for one in PAGES)}")
    page.write_text(insert(page.read_text(encoding="utf-8"), name, "\n\n".join(parts)), encoding="utf-8")
