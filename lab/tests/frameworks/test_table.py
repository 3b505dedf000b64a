"""Kept results, and their tables."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from longtests.frameworks.cases import CASES
from longtests.frameworks.program import Program
from longtests.frameworks.reasons import REASONS
from longtests.frameworks.results import Result, load, merge, save
from longtests.frameworks.table import problems, tables


def result(type_: str, case: str, **fields: Any) -> Result:
    return replace(
        Result("one", "1", type_, case, "2026-11-28", "2 CPUs", counts={"received": 200}, seconds=1.0), **fields
    )


def program(folder: Path) -> Program:
    return Program(
        folder / "one",
        "One",
        "Java",
        "g:one",
        "1",
        "A listener.",
        (),
        ("x",),
        ("Exclusive", "Shared"),
        60,
        partitions=True,
        admin=True,
        batches=True,
        shared=(),
        note="It asks.",
    )


GOOD = [
    result(type_, case.name)
    for type_ in ("Exclusive", "Shared")
    for case in CASES
    if type_ == "Exclusive" or not (case.partitions or case.admin_of_pool)
]


def row(lines: list[str], begin: str) -> list[str]:
    return next([cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith(begin))


def test_results_are_kept_one_for_each_run(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    assert load(path) == []
    newer = result("Shared", "pool", admin={"GET /x 404": 2}, tries=2)
    save(path, merge(GOOD, newer))
    kept = load(path)
    assert sorted(one.key for one in kept) == sorted(one.key for one in GOOD)
    assert newer in kept
    assert len(path.read_text().splitlines()) == len(GOOD) + 2


def test_equal_results_are_one_sign(tmp_path: Path) -> None:
    lines = tables([program(tmp_path)], GOOD)
    assert row(lines, "| One | 1 |") == ["One", "1", "Java", "Exclusive, Shared", *["="] * 8]
    assert lines[0].startswith("1 frameworks and clients, 15 runs: 3,000 messages received, 0 lost")
    assert "No program sent one." in lines
    assert problems(GOOD) == []
    assert row(tables([program(tmp_path)], []), "| One | 1 |")[4:] == ["-"] * 8
    first = [one for one in GOOD if one.type == "Exclusive"]
    cells = row(tables([program(tmp_path)], first), "| One | 1 |")[4:]
    assert cells == ["= Exclusive", "= Exclusive", "=", "=", *["= Exclusive"] * 4]
    assert row(tables([replace(program(tmp_path), version="2")], GOOD), "| One | 2 |")[4:] == ["-"] * 8


def test_faults_and_differences_are_named_with_their_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = result("Shared", "pool-kill", counts={"received": 198, "lost": 2}, faults=["2 lost"])
    other = result("Exclusive", "pool", counts={"received": 200, "reconnects": 1})
    again = result("Shared", "owner-unload", counts={"received": 200, "duplicates": 3, "errors": 1}, tries=2)
    kept = merge(merge(merge(GOOD, bad), other), again)
    assert problems(kept) == [
        "one, Shared, pool-kill: 2 lost; lost: 0 at the owner, 2 through the pool",
        "one, Exclusive, pool: reconnects: 0 at the owner, 1 through the pool",
    ]
    lines = tables([program(tmp_path)], kept)
    cells = row(lines, "| One | 1 |")
    assert cells[5] == "**≠** [1] Exclusive<br>= Shared"
    assert cells[8] == "= Exclusive<br>=² Shared"
    assert cells[11] == "= Exclusive<br>**!** [2] Shared"
    assert "2. No reason is known: 2 lost; lost: 0 at the owner, 2 through the pool." in lines
    assert row(lines, "| One | Shared |")[2] == "3 duplicates, 1 errors"
    monkeypatch.setitem(REASONS, ("one", "*", "pool-kill"), "One is like that.")
    monkeypatch.setitem(REASONS, ("one", "Exclusive", "*"), "And so.")
    assert problems(kept) == []
    assert "2. One is like that." in tables([program(tmp_path)], kept)


def test_a_program_that_cannot_be_built_is_a_row(tmp_path: Path) -> None:
    failed = [replace(one, build_error="no such package", faults=["not built"], counts={}) for one in GOOD]
    lines = tables([program(tmp_path)], failed)
    assert row(lines, "| One | 1 |")[4:] == ["not built [1]"] * 8
    assert "1. no such package" in lines
    assert problems(failed) == []


def test_requests_to_the_admin_api(tmp_path: Path) -> None:
    asked = result("Exclusive", "owner", admin={"GET /a 200": 3, "GET /b 200": 1})
    refused = result("Exclusive", "pool-admin", admin={"GET /a 404": 3})
    lines = tables([program(tmp_path)], merge(merge(GOOD, asked), refused))
    assert "| One | `GET /a` | 200 | 404 |" in lines
    assert "| One | `GET /b` | 200 | - |" in lines
