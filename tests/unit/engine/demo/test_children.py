"""Child processes of the demo: their CPU time, their errors, and their end."""

import asyncio
import os
import sys
from pathlib import Path

import pytest
from readonly_engine.demo.children import Children, cpu_seconds
from readonly_engine.demo.errors import DemoError

from tests.support.waiting import until


def test_cpu_time_of_a_process_with_a_strange_name() -> None:
    stat = f"7 (a) b (c) S {' '.join(['0'] * 10)} 250 50 0 0"
    assert cpu_seconds(stat) == 300 / os.sysconf("SC_CLK_TCK")


async def test_a_child_that_fails_is_quoted(tmp_path: Path) -> None:
    stack = "why\n" + "\tat org.example.Main.main(Main.java:1) ~[?:?]\n" * 20 + "\t... 7 more\n"
    children = Children(tmp_path)
    child = await children.start("some tool", ["sh", "-c", f"printf '{stack}' >&2; exit 3"], read=True)
    with pytest.raises(DemoError, match=r"^some tool ended with status 3:\n    why$"):
        await child.output()


async def test_close_ends_a_child_with_all_that_it_has_started(tmp_path: Path) -> None:
    program = "import subprocess, sys; subprocess.run(['sleep', '600'])"
    children = Children(tmp_path)
    child = await children.start("parent", [sys.executable, "-c", program])
    async with asyncio.timeout(30):
        while not (group := _group(child._process.pid)) or len(group) < 2:
            await asyncio.sleep(0.01)
    await children.close()
    await until(lambda: not _group(child._process.pid))
    assert len(group) == 2


def _group(leader: int) -> list[Path]:
    """Return the live processes of a process group."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == leader and fields[0] not in "ZX":
            found.append(path)
    return found
