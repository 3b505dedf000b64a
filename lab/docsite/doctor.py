"""Generate docs/reference/doctor.md: what `pulsar-readonly doctor` printed for healthy and for broken clusters.

The reports are files that tests/integration/tools/test_doctor.py and test_doctor_broken.py write in a run with
PULSAR_READONLY_WRITE_REPORTS=1. Nobody writes them by hand.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from readonly_engine.doctor.checks.finding import Finding, Result
from readonly_engine.doctor.report import as_table

from devstack.common.results import save_results
from docsite.markdown import NOTE, code, table
from docsite.results import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

REPORTS: Final = Path(__file__).resolve().parents[2] / "docs" / "reference" / "doctor"
WIDTH: Final = 130
MAX_FINDINGS: Final = 200
"""Findings of a report. More of them are no report of a cluster as small as those of the tests."""

_FORM: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_FOLDER: Final = re.compile(r"(?<![\w:/.-])/(?:root|home|tmp|var/tmp|work|usr|opt)/[^\s'\",;:)]*")
_GENERATED: Final = (
    (re.compile(r"doctor-[0-9a-f]{32}"), "doctor"),
    (re.compile(r"test-[0-9a-f]{12}"), "orders"),
)
"""Names that a test makes up, and what the page has instead."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A cluster with its expected result.

    Attributes:
        name: of the file of its report.
        title: heading.
        check: the check that must find the problem; empty for a healthy cluster.
        results: results that this check may have.
    """

    name: str
    title: str
    check: str = ""
    results: tuple[Result, ...] = ()

    @property
    def healthy(self) -> bool:
        """Whether no check may fail."""
        return not self.check


_FAIL: Final = (Result.FAIL,)
_WARN: Final = (Result.WARN,)
SCENARIOS: Final = (
    Scenario("healthy-open", "Healthy: an open cluster with explicit LAC"),
    Scenario("healthy-tls-token", "Healthy: TLS and tokens"),
    Scenario("healthy-secure-stores", "Healthy: ZooKeeper and bookies with TLS and logins"),
    Scenario("healthy-oxia", "Healthy: Oxia instead of ZooKeeper"),
    Scenario("wrong-admin-url", "Broken: a wrong admin URL", "admin API", _FAIL),
    Scenario("untrusted-certificate", "Broken: an untrusted certificate", "service URL", _FAIL),
    Scenario("wrong-token", "Broken: a wrong token", "admin API", _FAIL),
    Scenario("stopped-bookie", "Broken: a stopped bookie", "bookie", (Result.WARN, Result.FAIL)),
    Scenario("missing-rights", "Broken: missing rights in ZooKeeper", "metadata rights: write", _FAIL),
    Scenario("explicit-lac-off", "Broken: explicit LAC is off", "explicit LAC", _WARN),
    Scenario("wrong-metadata-store", "Broken: the metadata store of another cluster", "same cluster", _FAIL),
    Scenario("clock-skew", "Broken: a clock that is wrong by two minutes", "clock", _FAIL),
    Scenario("passthrough-policies", "Broken: policies that make subscriptions pass through", "passthrough", _WARN),
)
"""All clusters of the page."""

HEAD: Final = f"""# Reports of `doctor`

{NOTE}

Each table is what [`pulsar-readonly doctor`](../how-to/check-installation.md) printed in a run of the integration tests, on a real cluster. Ports, and the names that
a test made up, differ from run to run. Folders are shown as `FOLDER`.
`PULSAR_READONLY_WRITE_REPORTS=1 python -m pytest tests/integration/tools/test_doctor.py tests/integration/tools/test_doctor_broken.py` writes the reports again, and
`make docs-pages` this page.

"""


class ReportError(ValueError):
    """A report is not what the page can show; the text names the file."""


def record(
    name: str, status: int, findings: Sequence[Mapping[str, str]], day: str, machine: str, folder: Path = REPORTS
) -> None:
    """Write a report.

    Args:
        name: name of a scenario.
        status: exit status of the command.
        findings: those of its JSON document.
        day: of the run, such as 2026-11-26.
        machine: processors and Python.
        folder: of all reports.

    Raises:
        ReportError: there is no such scenario, or the report does not show what the scenario is about.
    """
    scenario = next((one for one in SCENARIOS if one.name == name), None)
    if scenario is None or not _FORM.fullmatch(name):
        raise ReportError(f"{name}: no scenario of lab/docsite/doctor.py")
    shown = [{key: _plain(value) for key, value in one.items()} for one in findings]
    document = {"status": status, "day": day, "machine": machine, "findings": shown}
    _check(scenario, document)
    folder.mkdir(parents=True, exist_ok=True)
    save_results(folder / f"{name}.json", document)


def page(folder: Path = REPORTS) -> str:
    """Return the whole page, Markdown.

    Args:
        folder: of the reports.

    Raises:
        ReportError: a report is damaged, or does not show what its scenario is about.
    """
    found = {one: _read(one, folder / f"{one.name}.json") for one in SCENARIOS}
    rows = [
        [f"[{one.title}](#{_anchor(one.title)})", code(one.check) or "all", _verdict(one, report), report["day"] if report else UNKNOWN]
        for one, report in found.items()
    ]  # fmt: skip
    parts = [HEAD, table(["cluster", "check", "result", "day"], rows), ""]
    for one, report in found.items():
        parts += [f"## {one.title}", *_section(report), ""]
    return "\n".join(parts)


def _section(report: dict[str, Any] | None) -> list[str]:
    if report is None:
        return [f"This report is {UNKNOWN}."]
    findings = [
        Finding(one["check"], Result(one["result"]), one["observed"], one["remedy"], one["subject"])
        for one in report["findings"]
    ]
    about = f"Run of {report['day']}; {report['machine']}; exit status {report['status']}."
    return [about, "```text", as_table(findings, WIDTH).rstrip("\n"), "```"]


def _verdict(scenario: Scenario, report: dict[str, Any] | None) -> str:
    if report is None:
        return UNKNOWN
    if scenario.healthy:
        return "no failures"
    return ", ".join(sorted({one["result"] for one in report["findings"] if one["check"] == scenario.check}))


def _read(scenario: Scenario, path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        _check(scenario, document)
        for one in document["findings"]:
            Result(one["result"])
    except (ValueError, KeyError, TypeError) as error:
        raise ReportError(f"{path.name}: no report of doctor ({error})") from error
    return document


def _check(scenario: Scenario, document: Mapping[str, Any]) -> None:
    """Check that a report shows what its scenario is about: no failure, or the failure that it names.

    Raises:
        ReportError: it does not.
    """
    findings = document["findings"]
    if not 0 < len(findings) <= MAX_FINDINGS:
        raise ReportError(f"{scenario.name}: {len(findings)} findings instead of 1 to {MAX_FINDINGS}")
    failed = [one["check"] for one in findings if one["result"] == Result.FAIL]
    if scenario.healthy and (failed or document["status"] != 0):
        raise ReportError(f"{scenario.name}: a healthy cluster has failures: {', '.join(failed)}")
    about = [one for one in findings if one["check"] == scenario.check and one["result"] in scenario.results]
    if not scenario.healthy and not about:
        raise ReportError(f"{scenario.name}: no finding of {scenario.check} is {' or '.join(scenario.results)}")


def _plain(text: str) -> str:
    """Return a text without folders of this machine and without names that a test has made up."""
    for pattern, instead in _GENERATED:
        text = pattern.sub(instead, text)
    return _FOLDER.sub("FOLDER", text)


def _anchor(title: str) -> str:
    return re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", title.lower())).strip("-")
