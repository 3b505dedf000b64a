"""The suites of `make test` beside each other: most of an integration test is waiting for servers.

    python -m tests.suites [--integration] [PYTEST OPTION ...]

With --integration, only the groups of tests/integration run.
The output of the first group is shown as it comes, that of the others when all have ended; one line of totals comes last.

More groups at once on two cores make servers so slow that timeouts of stock clients and of Spark end before a server answers.
So a small machine runs three at once (`AT_ONCE`), the longest ones first. A few tests that fail on real servers get a second
try, alone, when everything else has ended, and so does one without servers: a machine that stands still for seconds may have
failed it. The last lines name them. What fails then has failed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from devstack.kube.choice import choose
from devstack.kube.local import LocalCluster

LOCAL_KUBERNETES: Final = "tests/integration/devstack/test_local_kubernetes.py"
"""Looks for traces that a Kubernetes leaves on the machine: nothing that runs pods may run beside it."""

SPARK: Final = "tests/integration/spark"
"""The integration tests of Spark, on a stack of their own."""


@dataclass(frozen=True, slots=True)
class SuiteGroup:
    """Tests that run one after the other in a process of their own.

    Attributes:
        paths: files, folders and options for pytest.
        marks: expression of the marks of the tests in them that belong to the group.
        stack: which of the shared stacks they use, as tests/integration/conftest.py names them.
    """

    paths: tuple[str, ...]
    marks: str = ""
    stack: str = "first"


UNIT_TESTS: Final = ("tests/unit", "lab/tests")
HALF_OF_UNIT_TESTS: Final = ("tests/unit/engine", "tests/unit/spark")
"""Half of the unit tests, by time: in one group all of them would run alone at the end, on one of two cores."""

_EXCEPT_SPARK: Final = ("tests/integration", f"--ignore={LOCAL_KUBERNETES}", f"--ignore={SPARK}")
INTEGRATION_GROUPS: Final = (
    SuiteGroup(_EXCEPT_SPARK, "not second_stack and not own_stack"),
    SuiteGroup(_EXCEPT_SPARK, "second_stack", "second"),
    SuiteGroup(("tests/integration",), "own_stack"),
    SuiteGroup((SPARK,), "not own_stack"),
)
GROUPS: Final = (
    SuiteGroup((LOCAL_KUBERNETES, "tests/e2e")),
    *INTEGRATION_GROUPS[:2],
    SuiteGroup(HALF_OF_UNIT_TESTS),
    SuiteGroup((*UNIT_TESTS, *(f"--ignore={path}" for path in HALF_OF_UNIT_TESTS))),
    *INTEGRATION_GROUPS[2:],
)
"""No two of them use the same servers, because a group stops its servers at its end."""

AT_ONCE: Final = max(3, os.cpu_count() or 1)
"""Number of groups that run at once."""

COUNTED: Final = ("failures", "errors", "skipped")

SECOND_TRIES: Final = 5
"""More failures than that are no accident."""

SLOWEST: Final = 20
"""Number of files that are named as the slowest ones."""

ON_SERVERS: Final = ("tests/integration/", "tests/e2e/")
WITHOUT_SERVERS: Final = 1
"""Of these more failures are no accident: most of them do not depend on time."""


@dataclass(frozen=True, slots=True)
class Total:
    """What became of a group's tests.

    Attributes:
        tests: how many there were.
        failures: how many failed.
        errors: how many could not begin, or not end.
        skipped: how many were left out.
    """

    tests: int
    failures: int
    errors: int
    skipped: int

    @classmethod
    def of(cls, report: Path) -> Total:
        """The total of a JUnit report; all zero where a run was over before it wrote one."""
        if not report.exists():
            return cls(0, 0, 0, 0)
        suites = list(ET.parse(report).getroot().iter("testsuite"))
        return cls(*(sum(int(suite.get(name, 0)) for suite in suites) for name in ("tests", *COUNTED)))


def failed_tests(report: Path) -> list[str]:
    """The tests of a JUnit report that failed or could not begin, as pytest takes them on its command line."""
    if not report.exists():
        return []
    failed = (
        f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"
        for case in ET.parse(report).getroot().iter("testcase")
        if case.find("failure") is not None or case.find("error") is not None
    )
    return list(dict.fromkeys(failed))  # a test whose end fails too stands there twice


def slowest(reports: Iterable[Path]) -> list[tuple[str, float]]:
    """The files of JUnit reports whose tests took longest, with seconds, the longest first; with the start of their servers."""
    seconds: Counter[str] = Counter()
    for report in reports:
        for case in ET.parse(report).getroot().iter("testcase") if report.exists() else ():
            # A test in a class has that in its name too.
            words = [word for word in case.get("classname", "").split(".") if word[:1].islower()]
            seconds["/".join(words)] += float(case.get("time", 0))
    return [(name, float(value)) for name, value in seconds.most_common(SLOWEST)]


def may_try_again(failed: list[str]) -> bool:
    """Whether these failures, all there are, are few enough, and at most WITHOUT_SERVERS of tests without servers."""
    without = [name for name in failed if not name.startswith(ON_SERVERS)]
    return 0 < len(failed) <= SECOND_TRIES and len(without) <= WITHOUT_SERVERS


def environment_of_tests() -> dict[str, str]:
    """Return the environment of pytest: servers that stay up would take time from the groups that follow."""
    return {"KEEP_PULSAR": "0"} | os.environ


def keeps_kubernetes() -> bool:
    """Whether the Kubernetes stays: it is of kind, which only deletes, or it runs already."""
    cluster = choose()
    return cluster.provider != LocalCluster.provider or cluster.status().up


def selection(group: SuiteGroup, marks: str) -> list[str]:
    """The arguments of pytest that select those tests of a group that have these marks, too."""
    both = " and ".join(f"({expression})" for expression in (marks, group.marks) if expression)
    return ["-m", both, *group.paths]


def run(
    group: SuiteGroup, output: Path | None, report: Path, marks: str, options: list[str], *, kubernetes_kept: bool
) -> int:
    """Run a group; return pytest's exit status.

    Args:
        group: the tests.
        output: file for the output; None for the terminal.
        report: file for the JUnit report.
        marks: expression of the marks of the tests to run, of all groups.
        options: further options of pytest.
        kubernetes_kept: whether the Kubernetes of the end-to-end tests stays up after them.
    """
    command = [sys.executable, "-m", "pytest", f"--junitxml={report}", *options, *selection(group, marks)]
    with nullcontext() if output is None else output.open("wb") as file:
        environment = environment_of_tests() | {"TEST_STACK": group.stack}
        ended = subprocess.run(command, stdout=file, stderr=file, env=environment, check=False).returncode
    if group is GROUPS[0] and not kubernetes_kept:
        # An idle Kubernetes with a Pulsar takes half a core from the other groups.
        subprocess.run([sys.executable, "-m", "devstack", "kube", "down"], check=False)
    return ended


def main(arguments: list[str]) -> int:
    """Run every group; returns 0 where each of them ran and nothing failed, or failed only while others ran beside it."""
    began = time.monotonic()
    parser = argparse.ArgumentParser(prog="python -m tests.suites", allow_abbrev=False)
    parser.add_argument("--integration", action="store_true", help="run the groups of tests/integration only")
    parser.add_argument("-m", dest="marks", default="", help="expression of marks, as of pytest")
    own, options = parser.parse_known_args(arguments)
    groups = INTEGRATION_GROUPS if own.integration else GROUPS
    with tempfile.TemporaryDirectory(prefix="pulsar-readonly-tests-") as folder:
        outputs = [Path(folder, f"{index}.txt") for index in range(1, len(groups))]
        reports = [Path(folder, f"{index}.xml") for index in range(len(groups))]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            run_group = partial(run, marks=own.marks, options=options, kubernetes_kept=keeps_kubernetes())
            codes = list(pool.map(run_group, groups, [None, *outputs], reports))
        for output in outputs:
            sys.stdout.write(output.read_text(errors="replace"))
        totals = [Total.of(report) for report in reports]
        failed = [name for report in reports for name in failed_tests(report)]
        longest = slowest(reports)
    tests, *counts = (sum(getattr(total, name) for total in totals) for name in ("tests", *COUNTED))
    minutes, rest = divmod(round(time.monotonic() - began), 60)
    told = ", ".join(f"{count} {name}" for name, count in zip(COUNTED, counts, strict=True))
    sys.stdout.write(f"slowest files: {', '.join(f'{name} {seconds:.0f} s' for name, seconds in longest)}\n")
    sys.stdout.write(f"total: {tests - sum(counts)} passed, {told} in {minutes} min {rest} s\n")
    code = max(codes, key=abs)
    if code == pytest.ExitCode.TESTS_FAILED and may_try_again(failed):
        sys.stdout.write(f"again, alone: {' '.join(failed)}\n")
        sys.stdout.flush()
        command = [sys.executable, "-m", "pytest", "-m", own.marks, *options, *failed]
        code = subprocess.run(command, env=environment_of_tests(), check=False).returncode
        verdict = "failed again" if code else "passed alone, having failed beside the others"
        sys.stdout.write(f"{verdict}: {' '.join(failed)}\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
