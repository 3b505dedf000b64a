"""The report: a table for people, a JSON document for programs, and the exit status."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from typing import TYPE_CHECKING, Final

from readonly_engine.doctor.checks.finding import Result, worst

if TYPE_CHECKING:
    from collections.abc import Sequence

    from readonly_engine.doctor.checks.finding import Finding

HEAD: Final = ("CHECK", "RESULT", "OBSERVED", "REMEDY")
MIN_WIDTH: Final = 80
_GAP: Final = "  "
_MIN_CELL: Final = 18
_MAX_CHECK: Final = 30


def exit_status(findings: Sequence[Finding], *, strict: bool) -> int:
    """Return the exit status: 0 without problems, 2 with failures, and with `strict` 1 for warnings alone."""
    result = worst(findings)
    if result is Result.FAIL:
        return 2
    return 1 if strict and result is Result.WARN else 0


def as_json(findings: Sequence[Finding]) -> str:
    """Return the report as a JSON document."""
    counts = Counter(one.result for one in findings)
    document = {
        "result": worst(findings),
        "counts": {result: counts[result] for result in Result},
        "findings": [
            {
                "check": one.check,
                "subject": one.subject,
                "result": one.result,
                "observed": one.observed,
                "remedy": one.remedy,
            }
            for one in findings
        ],
    }
    return f"{json.dumps(document, indent=1)}\n"


def as_table(findings: Sequence[Finding], width: int) -> str:
    """Return the report as a table, with a line of totals.

    Args:
        findings: the findings, in their order.
        width: columns of the terminal; narrower ones count as MIN_WIDTH.
    """
    names = [f"{one.check}: {one.subject}" if one.subject else one.check for one in findings]
    first = min(max(map(len, [HEAD[0], *names])), _MAX_CHECK)
    second = len(HEAD[1])
    rest = max(width, MIN_WIDTH) - first - second - 3 * len(_GAP)
    third = max(_MIN_CELL, rest * 11 // 20)
    widths = (first, second, third, max(_MIN_CELL, rest - third))
    lines = _cells(HEAD, widths)
    for name, one in zip(names, findings, strict=True):
        lines += _cells((name, one.result, one.observed, one.remedy), widths)
    counts = Counter(one.result for one in findings)
    lines.append("")
    lines.append(", ".join(f"{counts[result]} {result}" for result in Result))
    return "\n".join(lines) + "\n"


def _cells(cells: Sequence[str], widths: Sequence[int]) -> list[str]:
    """Return the lines of one row; long cells are wrapped."""
    wrapped = [textwrap.wrap(cell, width) or [""] for cell, width in zip(cells, widths, strict=True)]
    return [
        _GAP.join(
            (lines[index] if index < len(lines) else "").ljust(width)
            for lines, width in zip(wrapped, widths, strict=True)
        ).rstrip()
        for index in range(max(map(len, wrapped)))
    ]
