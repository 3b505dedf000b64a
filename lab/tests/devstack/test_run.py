"""Programs that the devstack runs remove their mounts and files after an interrupt, before they are killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from devstack.common.run import run
from devstack.errors import DevstackError
from devstack.images.targets import PROJECT
from devstack.kube import programs
from devstack.kube.layout import Layout

CLEANS_UP = "trap 'sleep 1; touch cleaned; exit 3' {}; cat; touch started; while :; do sleep 0.05; done"
"""Needs a second, which is longer than subprocess.run waits after Ctrl-C. It starts when `run` waits for it."""

PROGRAM = """
from devstack.common.run import run
from devstack.program import run_program
run_program(lambda: run(["bash", "-c", {script!r}], what="sleeping", timeout=600) and 0)
"""


@pytest.mark.parametrize(
    ("send", "number"),
    [
        pytest.param(os.killpg, signal.SIGINT, id="Ctrl-C, which reaches all processes"),
        pytest.param(os.kill, signal.SIGTERM, id="SIGTERM to the devstack alone"),
    ],
)
def test_an_interrupted_program_cleans_up(
    tmp_path: Path, send: Callable[[int, int], None], number: signal.Signals
) -> None:
    program = PROGRAM.format(script=CLEANS_UP.format(number.name[3:]))
    environment = {**os.environ, "PYTHONPATH": str(PROJECT / "lab")}
    process = subprocess.Popen(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, start_new_session=True, stderr=subprocess.PIPE
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "started").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    send(process.pid, number)
    process.communicate(timeout=60)
    assert (tmp_path / "cleaned").exists()


def test_a_program_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    with pytest.raises(DevstackError, match="sleeping: bash did not end within 1 s"):
        run(["bash", "-c", "trap 'touch ended; exit' TERM; while :; do sleep 0.05; done"],
            what="sleeping", timeout=1, cwd=tmp_path)  # fmt: skip
    assert (tmp_path / "ended").exists()


def test_what_go_leaves_is_removed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    go = tmp_path / "bin" / "go"
    go.parent.mkdir()
    go.write_text(
        '#!/bin/sh\n[ "$1" = env ] && echo go1.99 && echo amd64 && exit\nmkdir "${GOTMPDIR:?}/go-build1"\nexit 1\n'
    )
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{go.parent}:/usr/bin:/bin")
    layout = Layout(tmp_path / "kube")
    with pytest.raises(DevstackError, match=r"failed with status 1$"):
        programs.ensure(layout, programs.COREDNS)
    assert not list(layout.builds.iterdir())
