"""The groups that `make test` runs beside each other: no two of them may use the same servers. And what it leaves out."""

import ast
import re
from pathlib import Path

import pytest

from tests import suites

ROOT = Path(__file__).parents[2]
SERVERS = [path for folder in ("integration", "e2e") for path in sorted(ROOT.glob(f"tests/{folder}/**/test_*.py"))]
FILES = [path for path in SERVERS if "integration" in path.parts]
SHARED = {"pulsar_stack", "pulsar", "breakable_pulsar", "admin", "pool", "own_pool", "pulsar_client", "pool_client"}
"""The fixtures of tests/integration/conftest.py that bring up the stack that most of its tests share."""
OTHERS = {"secured", "txn_stack", "txn_pool"}
"""Those that bring up another one, which more than one file uses."""
SHARE = 0.7
"""Largest share of the tests of servers that may be nightly, as functions: most subjects keep a test in `make test`."""


def functions_of(path):
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, functions)]


def marks_of(path):
    """The names in a file's `pytestmark`: the marks of all its tests."""
    assigned = [node for node in ast.parse(path.read_text()).body if ast.unparse(node).startswith("pytestmark = ")]
    return set(re.findall(r"pytest\.mark\.(\w+)", "".join(map(ast.unparse, assigned))))


def fixtures_of(path):
    """What a file's tests and fixtures ask for by name, and the file does not define itself."""
    functions = functions_of(path)
    fixtures = [node for node in functions if any("fixture" in ast.unparse(made_by) for made_by in node.decorator_list)]
    tests = [node for node in functions if node.name.startswith("test_")]
    return {argument.arg for node in fixtures + tests for argument in node.args.args} - {node.name for node in fixtures}


def test_a_part_of_the_tests_of_servers_stays():
    tests = [(path, node) for path in SERVERS for node in functions_of(path) if node.name.startswith("test_")]
    nightly = [
        "nightly" in marks_of(path) or "pytest.mark.nightly" in map(ast.unparse, node.decorator_list)
        for path, node in tests
    ]
    assert 0 < sum(nightly) / len(tests) < SHARE


def test_make_test_leaves_the_nightly_ones_out_and_make_test_all_does_not():
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(r"^test: SELECTED = not slow and not nightly$", makefile, re.MULTILINE)
    assert re.search(r"^SELECTED = not slow$", makefile, re.MULTILINE)


def test_every_folder_of_tests_without_servers_is_run():
    """The long forms have tests, too, which need clusters of their own: lab/longtests."""
    paths = {path for group in suites.GROUPS for path in group.paths}
    folders = {*ROOT.glob("tests/*"), *ROOT.glob("lab/*")}
    with_tests = {str(one.relative_to(ROOT)) for one in folders if next(one.rglob("test_*.py"), None)}
    assert with_tests - {"lab/longtests"} == {path for path in paths if path.count("/") == 1}
    assert (ROOT / suites.LOCAL_KUBERNETES).exists()
    assert (ROOT / suites.SPARK).is_dir()


@pytest.mark.parametrize("path", FILES, ids=lambda path: "/".join(path.parts[-2:]))
def test_a_file_is_in_the_group_of_its_servers(path):
    fixtures, marks = fixtures_of(path), marks_of(path)
    if fixtures & OTHERS:
        assert "own_stack" in marks, f"{path} uses {fixtures & OTHERS}: mark it with own_stack"
    if "own_stack" in marks or path.is_relative_to(ROOT / suites.SPARK):
        assert not fixtures & SHARED, f"{path} uses {fixtures & SHARED}, which are not of its group"
        assert "second_stack" not in marks


def test_a_group_has_the_tests_with_its_marks_of_those_that_were_asked_for():
    group = suites.SuiteGroup(("tests/integration",), "own_stack or second_stack")
    assert suites.selection(group, "not slow") == [
        "-m",
        "(not slow) and (own_stack or second_stack)",
        "tests/integration",
    ]
    assert suites.selection(group, "") == ["-m", "(own_stack or second_stack)", "tests/integration"]
    assert suites.selection(suites.SuiteGroup(("a", "b")), "") == ["-m", "", "a", "b"]


REPORT = """<testsuites><testsuite tests="4">
<testcase classname="tests.integration.reading.test_tail" name="test_one"/>
<testcase classname="tests.integration.reading.test_tail" name="test_two[a-1]"><failure message="no"/></testcase>
<testcase classname="tests.e2e.test_pool" name="test_three"><error message="no server"/></testcase>
<testcase classname="tests.e2e.test_pool" name="test_four"><skipped/></testcase>
</testsuite></testsuites>"""


def test_what_failed_is_named_as_pytest_takes_it(tmp_path):
    report = tmp_path / "report.xml"
    assert suites.failed_tests(report) == []
    report.write_text(REPORT)
    assert suites.failed_tests(report) == [
        "tests/integration/reading/test_tail.py::test_two[a-1]",
        "tests/e2e/test_pool.py::test_three",
    ]


@pytest.mark.parametrize(
    ("failed", "again"),
    [
        ([], False),
        (["tests/integration/reading/test_tail.py::test_two"], True),
        (["tests/integration/reading/test_tail.py::test_two"] * (suites.SECOND_TRIES + 1), False),
        (["tests/integration/reading/test_tail.py::test_two", "tests/unit/test_suites.py::test_one"], True),
        (["tests/unit/test_suites.py::test_one", "lab/tests/test_shape.py::test_two"], False),
    ],
)
def test_few_failures_on_servers_and_one_without_get_a_second_try(failed, again):
    assert suites.may_try_again(failed) is again


def test_the_slowest_files_are_named(tmp_path):
    first, second = tmp_path / "0.xml", tmp_path / "1.xml"
    first.write_text(
        '<testsuites><testsuite><testcase classname="tests.integration.reading.test_tail" name="a" time="2.5"/>'
        '<testcase classname="tests.integration.reading.test_tail.TestMore" name="b" time="1.5"/></testsuite></testsuites>'
    )
    second.write_text(
        '<testsuites><testsuite><testcase classname="tests.unit.test_suites" name="c" time="9"/></testsuite></testsuites>'
    )
    assert suites.slowest([first, second, tmp_path / "none.xml"]) == [
        ("tests/unit/test_suites", 9.0),
        ("tests/integration/reading/test_tail", 4.0),
    ]
