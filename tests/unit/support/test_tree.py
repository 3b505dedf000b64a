"""The tool behind `make -C lab shape`, on small trees."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longtests import shape
from tests.support.tree import Folder, Repetition, circles, folders, imports_inside, repetitions, sources


def write(root: Path, **files: str) -> Path:
    """Make a package `p` of modules; return its folder."""
    package = root / "p"
    package.mkdir()
    (package / "__init__.py").touch()
    for name, text in files.items():
        (package / f"{name}.py").write_text(text)
    return package


def test_modules_that_import_each_other_are_a_circle(tmp_path: Path) -> None:
    package = write(tmp_path, a="from p.b import f\n", b="import p.c\n", c="from p import a\n", d="from p.a import x\n")
    assert circles(imports_inside(package, types=False)) == [["p.a", "p.b", "p.c"]]


@pytest.mark.parametrize(
    "text",
    [
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.a import f\n",
        "def late():\n    from p.a import f\n",
    ],
)
def test_a_circle_that_does_not_matter_at_loading_counts_with_types_only(tmp_path: Path, text: str) -> None:
    package = write(tmp_path, a="from p.b import g\n", b=text)
    assert circles(imports_inside(package, types=False)) == []
    assert circles(imports_inside(package, types=True)) == [["p.a", "p.b"]]


def test_a_module_taken_from_its_package_does_not_import_the_package(tmp_path: Path) -> None:
    package = write(tmp_path, a="from p import b\n", b="")
    assert imports_inside(package, types=True) == {"p": set(), "p.a": {"p.b"}, "p.b": set()}


@given(st.dictionaries(st.integers(0, 6), st.sets(st.integers(0, 6)), min_size=7, max_size=7))
def test_circles_are_the_modules_that_reach_each_other(numbers: dict[int, set[int]]) -> None:
    graph = {str(one): {str(other) for other in others if other != one} for one, others in numbers.items()}

    def reached(start: str) -> set[str]:
        found, left = set[str](), [start]
        while left:
            for following in graph[left.pop()] - found:
                found.add(following)
                left.append(following)
        return found

    expected = {
        frozenset(other for other in reached(one) if one in reached(other)) for one in graph if one in reached(one)
    }
    assert {frozenset(circle) for circle in circles(graph)} == expected


SIX = "".join(f"value_{number} = {number}\n" for number in range(6))


def test_six_equal_lines_are_a_repetition_and_five_are_none(tmp_path: Path) -> None:
    commented = SIX.replace("value_3", "# why\nvalue_3")
    package = write(
        tmp_path,
        a=f"import os\n{SIX}x = 1\n",
        b=f"y = 2\n\n# comment\n{commented}",
        c=SIX[SIX.index("\n") + 1 :],
    )
    assert repetitions(tmp_path, sources(package)) == [Repetition(("p/a.py", "p/b.py"), 6)]


def test_folders_count_files_and_lines(tmp_path: Path) -> None:
    package = write(tmp_path, a="1\n2\n", b_pb2="1\n")
    assert folders(tmp_path, sources(package)) == [Folder("p", 2, 2)]


def test_the_command_fails_on_a_circle_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in shape.PACKAGES:
        (tmp_path / name).mkdir(parents=True)
    package = tmp_path / "lab" / "bench"
    (package / "a.py").write_text("import bench.b\n")
    (package / "b.py").write_text("")
    assert shape.main(["--root", str(tmp_path)]) == 0
    (package / "b.py").write_text("import bench.a\n")
    assert shape.main(["--root", str(tmp_path)]) == 1
    assert "bench.a, bench.b" in capsys.readouterr().out


@pytest.mark.parametrize("package", shape.PACKAGES)
def test_no_modules_of_the_project_import_each_other(package: str) -> None:
    assert circles(imports_inside(shape.ROOT / package, types=True)) == []
