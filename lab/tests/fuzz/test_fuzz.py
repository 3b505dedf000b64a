"""Every parser survives a little fuzzing (`make -C lab fuzz` is the long form), and the fuzzer finds what it is for."""

import subprocess
import sys
import time

import pytest
from readonly_engine.wire.errors import WireError

from longtests.fuzz import fuzz as fuzzer
from longtests.fuzz.fuzz import Result, damage, fuzz
from longtests.fuzz.targets import TARGETS, Target

EXECUTIONS = 60
SECONDS = 60.0


@pytest.mark.parametrize("name", TARGETS)
def test_only_named_errors_come_of_damaged_input(name: str) -> None:
    result = fuzz(TARGETS[name], SECONDS, first_seed=time.time_ns(), max_executions=EXECUTIONS)
    assert result.failure is None, result.example
    assert result.executions >= 1


@pytest.mark.parametrize("name", TARGETS)
def test_sound_input_is_taken_or_refused_by_name(name: str) -> None:
    target = TARGETS[name]
    taken = 0
    for seed in target.seeds:
        try:
            target.parse(seed)
        except target.errors:
            continue
        taken += 1
    assert taken, "no seed is sound: the fuzzer would never get past the first check"


def _fuzz(parse: object) -> Result:
    return fuzz(Target("t", parse, (WireError,), (b"abcdefgh",)), SECONDS, 1, max_executions=2000)  # type: ignore[arg-type]


def test_an_error_without_a_name_is_found_and_made_small() -> None:
    def parse(data: bytes) -> None:
        if b"\x00" in data:
            raise IndexError("crash")
        raise WireError("refused")

    result = _fuzz(parse)
    assert result.failure == "IndexError: crash"
    assert result.example is not None
    assert b"\x00" in result.example


def test_a_hang_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzzer, "EXAMPLE_SECONDS", 0.1)

    def parse(data: bytes) -> None:
        while data.startswith(b"\xff"):
            pass

    result = _fuzz(parse)
    assert result.failure is not None
    assert result.failure.startswith("HangError")


def test_unbounded_memory_is_found() -> None:
    script = (
        "from longtests.fuzz.fuzz import fuzz, limit_memory\n"
        "from longtests.fuzz.targets import Target\n"
        "limit_memory()\n"
        "print(fuzz(Target('t', lambda data: bytearray(1 << 30), (), (b'a',)), 30, 1, 10).failure)\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.startswith("MemoryError")


def test_damages_are_what_they_say() -> None:
    assert damage(b"abcd", [("flip", 0.0, b"\x01")]) == b"`bcd"
    assert damage(b"abcd", [("overwrite", 0.21, b"XY")]) == b"aXYd"
    assert damage(b"abcd", [("insert", 0.21, b"XY")]) == b"aXYbcd"
    assert damage(b"abcd", [("cut", 0.21, b"\x02")]) == b"ad"
    assert damage(b"ab", [("repeat", 0.0, b"\x02")]) == b"ababab"
    assert damage(b"abcd", [("splice", 0.5, b"WXYZ")]) == b"abYZ"
