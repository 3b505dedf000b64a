"""`make -C lab fuzz`: every parser of the engine against damaged input, each in a process with bounded time and memory."""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from devstack.console import say
from longtests.fuzz.fuzz import Result, fuzz, limit_memory
from longtests.fuzz.targets import TARGETS

_MARGIN_S = 120.0
"""A child that found a defect shrinks it before it ends; one that hangs outside of Python's reach is ended."""


def main(argv: list[str] | None = None) -> int:
    """Run the command; returns its exit status: 0 nothing found, 1 a defect, 2 wrong usage."""
    parser = argparse.ArgumentParser(prog="make -C lab fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="for each parser (default 10)")
    parser.add_argument("--seed", type=int, help="repeats a run (default: a new one, which is printed)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="parsers at a time (default: all cores)")
    parser.add_argument("--only", nargs="+", choices=sorted(TARGETS), default=list(TARGETS), metavar="PARSER")
    parser.add_argument("--child", choices=sorted(TARGETS), help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    seed = random.SystemRandom().randrange(1 << 31) if args.seed is None else args.seed
    if args.child:
        return _child(args.child, args.minutes * 60, seed)
    say(f"fuzz: seed {seed}, {len(args.only)} parsers, {args.minutes:g} minutes each, {args.jobs} at a time")
    with ThreadPoolExecutor(args.jobs) as threads:
        futures = {name: threads.submit(_run, name, args.minutes, seed) for name in args.only}
        results = {name: future.result() for name, future in futures.items()}
    lines = [f"{'PARSER':<20}{'EXECUTIONS':>12}{'PER SECOND':>12}{'MEMORY':>9}  FOUND"]
    lines += [
        f"{name:<20}{result.executions:>12,}{result.executions / max(result.seconds, 1e-9):>12,.0f}"
        f"{result.resident_mib:>6} MB  {result.failure or 'nothing'}"
        for name, result in results.items()
    ]
    lines += [f"{name}: {result.example.hex()}" for name, result in results.items() if result.example is not None]
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if any(result.failure for result in results.values()) else 0


def _run(name: str, minutes: float, seed: int) -> Result:
    command = [sys.executable, "-m", "longtests.fuzz", "--child", name, "--minutes", str(minutes), "--seed", str(seed)]
    try:
        ran = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=minutes * 60 + _MARGIN_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Result(0, minutes * 60, 0, "the process hung and was ended")
    try:
        told = json.loads(ran.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        return Result(0, minutes * 60, 0, f"the process died with status {ran.returncode}: {ran.stderr[-500:]}")
    example = None if told["example"] is None else bytes.fromhex(told["example"])
    result = Result(told["executions"], told["seconds"], told["resident_mib"], told["failure"], example)
    say(f"{name}: {result.executions:,} executions, {result.failure or 'nothing found'}")
    return result


def _child(name: str, seconds: float, seed: int) -> int:
    limit_memory()
    result = fuzz(TARGETS[name], seconds, seed)
    told = {
        "executions": result.executions,
        "seconds": result.seconds,
        "resident_mib": result.resident_mib,
        "failure": result.failure,
        "example": None if result.example is None else result.example.hex(),
    }
    sys.stdout.write(json.dumps(told) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
