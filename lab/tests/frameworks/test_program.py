"""Descriptions of programs, their builds, and paths of the admin API."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from devstack.errors import DevstackError
from longtests.frameworks.__main__ import jobs_of
from longtests.frameworks.build import ensure_built
from longtests.frameworks.cases import CASES, OWNER
from longtests.frameworks.process import ProgramProcess
from longtests.frameworks.program import load_program, load_programs
from longtests.frameworks.reasons import ANY, REASONS
from longtests.frameworks.results import Result
from longtests.frameworks.run import Runs
from longtests.frameworks.templates import template

GOOD: dict[str, Any] = {
    "title": "One",
    "language": "sh",
    "package": "one",
    "version": "1.0",
    "page": "A script.",
    "build": [["sh", "-c", "echo x >> made"]],
    "run": ["sh", "-c", 'cat made >&2; echo \'{"event": "ready"}\'; exit $STATUS'],
    "types": ["Shared", "Reader"],
    "timeout_seconds": 600,
}


def write(folder: Path, **changes: Any) -> Path:
    folder.mkdir(exist_ok=True)
    document = {name: value for name, value in (GOOD | changes).items() if value is not None}
    (folder / "program.yaml").write_text(yaml.safe_dump(document))
    return folder


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"title": None}, "title: missing"),
        ({"other": 1}, "other: unknown field"),
        ({"version": 1.0}, "version: 1.0"),
        ({"title": "a|b"}, "title: 'a|b'"),
        ({"build": ["make"]}, "build: "),
        ({"build": [[]]}, "build: "),
        ({"run": []}, "run: "),
        ({"types": ["shared"]}, "types: "),
        ({"types": []}, "types: "),
        ({"timeout_seconds": 601}, "timeout_seconds: 601"),
        ({"timeout_seconds": 0}, "timeout_seconds: 0"),
        ({"timeout_seconds": True}, "timeout_seconds: True"),
        ({"partitions": "no"}, "partitions: 'no'"),
        ({"shared": ["none"]}, "shared: "),
    ],
)
def test_a_wrong_description_names_the_field(tmp_path: Path, changes: dict[str, Any], what: str) -> None:
    with pytest.raises(DevstackError) as error:
        load_program(write(tmp_path / "one", **changes))
    assert what in str(error.value)
    assert error.value.hint


def test_a_build_is_done_once_for_each_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULSAR_READONLY_CACHE", str(tmp_path / "cache"))
    program = load_program(write(tmp_path / "one", shared=["java"]))
    folder = ensure_built(program)
    assert ensure_built(program) == folder
    assert (folder / "made").read_text() == "x\n"
    assert (folder / "shared" / "java" / "Report.java").exists()
    assert ensure_built(load_program(write(tmp_path / "one", page="Another text.", shared=["java"]))) == folder
    newer = [ensure_built(load_program(write(tmp_path / "one", build=[["touch", name]]))) for name in ("2", "3")]
    assert [each.exists() for each in (folder, *newer)] == [False, True, True]
    with pytest.raises(DevstackError, match="building one"):
        ensure_built(load_program(write(tmp_path / "one", build=[["false"]])))


def test_a_program_that_cannot_be_built_is_tried_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULSAR_READONLY_CACHE", str(tmp_path / "cache"))
    tried = tmp_path / "tried"
    program = load_program(write(tmp_path / "one", build=[["sh", "-c", f"echo x >> {tried}; echo no >&2; exit 1"]]))
    stack = SimpleNamespace(admin=lambda: SimpleNamespace(create_namespace=lambda _: None))
    jobs = [job for job in jobs_of([program], program.types, CASES) if job.case.target == OWNER]
    kept: list[Result] = []
    results = Runs(stack, tmp_path, 1).run(jobs, kept.append)  # type: ignore[arg-type] - asked for nothing else
    assert results == kept
    assert {result.build_error for result in results} == {"building one: sh failed with status 1 no"}
    assert tried.read_text() == "x\n"


def test_a_process_reports_events_and_its_end(tmp_path: Path) -> None:
    program = load_program(write(tmp_path / "one"))
    (tmp_path / "made").write_text("logged\n")
    process = ProgramProcess(program.run, tmp_path, {"STATUS": "3"}, tmp_path / "log")
    assert process.wait_for(lambda events: events.ready, float("inf"))
    assert process.wait_end(float("inf")) == 3
    assert "logged" in (tmp_path / "log").read_text()
    endless = ProgramProcess(("sh", "-c", "sleep 600 & wait"), tmp_path, {}, tmp_path / "log")
    assert not endless.wait_for(lambda events: events.ready, 0.0)
    assert endless.wait_end(0.0) is None


def test_runs_of_a_program(tmp_path: Path) -> None:
    plain, asks = load_program(write(tmp_path / "one")), load_program(write(tmp_path / "two", admin=True))
    whole = load_program(write(tmp_path / "three", partitions=False))
    names = [[(job.type, job.case.name) for job in jobs_of([one], one.types, CASES)] for one in (plain, asks, whole)]
    mixed = jobs_of([plain, asks], plain.types, CASES[:1])
    assert [(job.program.name, job.type) for job in mixed] == [
        (name, type_) for type_ in plain.types for name in ("one", "two")
    ]
    assert len(names[0]) == len(CASES) - 1 + len(CASES) - 3
    assert set(names[1]) - set(names[0]) == {("Shared", "pool-admin")}
    assert set(names[0]) - set(names[2]) == {("Shared", "owner-partitions"), ("Shared", "pool-partitions")}


def test_the_programs_of_this_checkout() -> None:
    programs = {program.name: program for program in load_programs()}
    assert programs
    for program, type_, case in REASONS:
        assert type_ in {ANY, *programs[program].types}
        assert case in {ANY, *(each.name for each in CASES)}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/admin/v2/persistent/a/b/c/partitions", "/admin/v2/persistent/{tenant}/{namespace}/{topic}/partitions"),
        ("/admin/v2/persistent/a/b", "/admin/v2/persistent/{tenant}/{namespace}"),
        ("/lookup/v2/topic/persistent/a/b/c", "/lookup/v2/topic/persistent/{tenant}/{namespace}/{topic}"),
        ("/admin/v2/schemas/a/b/c/schema", "/admin/v2/schemas/{tenant}/{namespace}/{topic}/schema"),
        (
            "/admin/v2/persistent/a/b/c/subscription/s/skip_all",
            "/admin/v2/persistent/{tenant}/{namespace}/{topic}/subscription/{subscription}/skip_all",
        ),
        ("/admin/v2/brokers/health", "/admin/v2/brokers/health"),
        ("/" + "x" * 300, "/" + "x" * 199),
    ],
)
def test_templates_of_paths(path: str, expected: str) -> None:
    assert template(path) == expected
