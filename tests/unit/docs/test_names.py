"""Files and functions that the documentation names exist."""

import ast
import re
import subprocess

import pytest

from docsite.__main__ import DOCS

ROOT = DOCS.parent
ENGINE = ROOT / "engine" / "readonly_engine"
PAGES = sorted([*DOCS.rglob("*.md"), ROOT / "CONTRIBUTING.md", ROOT / "README.md", ROOT / "lab" / "README.md"])
WALKS = (DOCS / "explanation" / "walks.md").read_text(encoding="utf-8")
ELSEWHERE = {"orders.py", "frame.py", "test_NAME.py", "apply-config-from-env.py"}
"""Files that the reader writes in tutorials, a placeholder, and a file of Pulsar's image."""


@pytest.fixture(scope="module")
def files() -> set[str]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True, timeout=20)
    return {f"/{name}" for name in listed.stdout.split("\0") if (ROOT / name).is_file()}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_source_file_that_a_page_names_exists(page, files):
    named = set(re.findall(r"(?<![\w./*-])([\w][\w./-]*\.(?:py|c|h))(?![\w-])", page.read_text(encoding="utf-8")))
    lacking = {
        name
        for name in named
        if name.rpartition("/")[2] not in ELSEWHERE and not any(file.endswith(f"/{name}") for file in files)
    }
    assert lacking == set()


@pytest.mark.parametrize("step", sorted(set(re.findall(r"`([\w/]+\.py):([\w.]+)`", WALKS))), ids=":".join)
def test_every_function_of_a_walk_exists(step):
    path, name = step
    found = ast.parse((ENGINE / path).read_text(encoding="utf-8"))
    for part in name.split("."):
        inside = [
            one
            for one in found.body
            if isinstance(one, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and one.name == part
        ]
        assert inside, f"{path} has no {name}"
        found = inside[0]


def test_the_walks_have_steps():
    assert len(re.findall(r"^\d+\. `", WALKS, re.MULTILINE)) > 20
