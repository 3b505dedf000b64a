"""The groups that `make test` runs beside each other: no two of them may use the same servers."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests import suites

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "tests" / "integration").glob("test_*.py"))
SHARED = {"pulsar_stack", "pulsar", "breakable_pulsar", "admin", "pool", "own_pool", "pulsar_client", "pool_client"}
"""The fixtures of tests/integration/conftest.py that bring up the stack that most of its tests share."""
SPARK = {"driver", "spark_client", "spark_stack"}
"""Those of the stack of Spark's tests."""
OTHERS = {"secured", "txn_stack", "txn_pool"}
"""Those that bring up another one, which more than one file uses."""


def fixtures_of(path):
    """What a file's tests and fixtures ask for by name, and the file does not define itself."""
    functions = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)]
    fixtures = [node for node in functions if any("fixture" in ast.unparse(made_by) for made_by in node.decorator_list)]
    tests = [node for node in functions if node.name.startswith("test_")]
    return {argument.arg for node in fixtures + tests for argument in node.args.args} - {node.name for node in fixtures}


def test_what_is_listed_is_there():
    listed = [*suites.OTHER_STACKS, *suites.SPARK_STACK, *suites.SECOND_STACK]
    assert {ROOT / path for path in listed} <= set(FILES)
    assert len(set(listed)) == len(listed)
    assert ROOT / suites.LOCAL_KUBERNETES in FILES


def test_every_folder_of_tests_without_servers_is_run():
    """The long forms have tests, too, which need clusters of their own: lab/longtests."""
    paths = {path for group in suites.GROUPS for path in group.paths}
    folders = {*ROOT.glob("tests/*"), *ROOT.glob("lab/*")}
    with_tests = {str(one.relative_to(ROOT)) for one in folders if next(one.rglob("test_*.py"), None)}
    assert with_tests - {"lab/longtests"} == {path for path in paths if path.count("/") == 1}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_is_in_the_group_of_its_servers(path):
    fixtures = fixtures_of(path)
    file = str(path.relative_to(ROOT))
    groups = {"OTHER_STACKS": (suites.OTHER_STACKS, OTHERS), "SPARK_STACK": (suites.SPARK_STACK, SPARK)}
    for name, (listed, needed) in groups.items():
        if fixtures & needed:
            assert file in listed, f"{path.name} uses {fixtures & needed}: list it in {name}"
        if file in listed:
            assert not fixtures & SHARED, f"{path.name} uses {fixtures & SHARED}: it must not be in {name}"


REPORT = """<testsuites><testsuite tests="4">
<testcase classname="tests.integration.test_tail" name="test_one"/>
<testcase classname="tests.integration.test_tail" name="test_two[a-1]"><failure message="no"/></testcase>
<testcase classname="tests.e2e.test_pool" name="test_three"><error message="no server"/></testcase>
<testcase classname="tests.e2e.test_pool" name="test_four"><skipped/></testcase>
</testsuite></testsuites>"""


def test_what_failed_is_named_as_pytest_takes_it(tmp_path):
    report = tmp_path / "report.xml"
    assert suites.failed_tests(report) == []
    report.write_text(REPORT)
    assert suites.failed_tests(report) == [
        "tests/integration/test_tail.py::test_two[a-1]",
        "tests/e2e/test_pool.py::test_three",
    ]


@pytest.mark.parametrize(
    ("failed", "again"),
    [
        ([], False),
        (["tests/integration/test_tail.py::test_two"], True),
        (["tests/integration/test_tail.py::test_two"] * (suites.SECOND_TRIES + 1), False),
        (["tests/integration/test_tail.py::test_two", "tests/unit/test_suites.py::test_one"], True),
        (["tests/unit/test_suites.py::test_one", "lab/tests/test_shape.py::test_two"], False),
    ],
)
def test_few_failures_on_servers_and_one_without_get_a_second_try(failed, again):
    assert suites.may_try_again(failed) is again


def test_the_slowest_files_are_named(tmp_path):
    first, second = tmp_path / "0.xml", tmp_path / "1.xml"
    first.write_text(
        '<testsuites><testsuite><testcase classname="tests.integration.test_tail" name="a" time="2.5"/>'
        '<testcase classname="tests.integration.test_tail.TestMore" name="b" time="1.5"/></testsuite></testsuites>'
    )
    second.write_text(
        '<testsuites><testsuite><testcase classname="tests.unit.test_suites" name="c" time="9"/></testsuite></testsuites>'
    )
    assert suites.slowest([first, second, tmp_path / "none.xml"]) == [
        ("tests/unit/test_suites", 9.0),
        ("tests/integration/test_tail", 4.0),
    ]
