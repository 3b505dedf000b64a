"""The constants of the model: each has its source, and no other file has measured numbers."""

import ast
import re
from itertools import pairwise
from pathlib import Path

import pytest
from readonly_engine.sizing import measured

ROOT = Path(__file__).parents[4]


def test_every_constant_has_its_source():
    """A heading of the pages, or of the page on local cursors."""
    text = Path(measured.__file__).read_text(encoding="utf-8")
    pages = [
        (ROOT / "docs" / "explanation" / name).read_text(encoding="utf-8")
        for name in ("performance.md", "performance-growth.md", "performance-parts.md", "local-cursors.md")
    ]
    headings = {re.sub(r": .*", "", one) for page in pages for one in re.findall(r"^#+ (.*)$", page, re.MULTILINE)}
    body = ast.parse(text).body
    checked = 0
    for one, after in pairwise(body):
        if isinstance(one, ast.AnnAssign) and not one.target.id.isupper():
            pytest.fail(one.target.id)
        if isinstance(one, ast.AnnAssign) and one.target.id not in {"MACHINE", "MEASURED_ON", "SOURCE"}:
            assert isinstance(after, ast.Expr), one.target.id
            source = after.value.value.partition("Source: ")[2]
            assert any(source.startswith(heading) for heading in headings), one.target.id
            checked += 1
    assert checked > 20
    assert (ROOT / measured.SOURCE).is_file()


def test_no_other_file_of_the_package_has_a_measured_number():
    """Numbers of two digits or more with a fraction are measured ones; others are units, bounds and choices."""
    for path in Path(measured.__file__).parent.glob("*.py"):
        if path.name != "measured.py":
            numbers = [
                one.value
                for one in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
                if isinstance(one, ast.Constant)
            ]
            fractions = {one for one in numbers if isinstance(one, float) and not one.is_integer()}
            assert fractions <= {0.05, 0.6}, path.name


@pytest.mark.parametrize(
    "name", ["estimate", "measured", "workload", "pool_cost", "owner_cost", "memory", "advice", "plan", "statistics"]
)
def test_the_model_is_pure(name):
    tree = ast.parse((Path(measured.__file__).parent / f"{name}.py").read_text(encoding="utf-8"))
    imported = {one.module or "" for one in ast.walk(tree) if isinstance(one, ast.ImportFrom)}
    imported |= {alias.name for one in ast.walk(tree) if isinstance(one, ast.Import) for alias in one.names}
    forbidden = {"socket", "asyncio", "time", "datetime", "logging", "os", "pathlib", "ssl", "aiohttp", "random", "sys"}
    assert {one.partition(".")[0] for one in imported} & forbidden == set()
