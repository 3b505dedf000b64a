"""Processes are found again by pid and start time, and end when they are told to; with real processes."""

import json
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from devstack.common import processes
from devstack.common.processes import Server
from tests.support.waiting import wait_until

SLEEPER = ("sleep", "600")
STUBBORN = ("sh", "-c", "trap '' TERM; echo deaf; exec sleep 600")


def ended(pid: int) -> bool:
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], 0)[0])
    finally:
        os.close(handle)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    made: list[Server] = []

    def server(name: str = "bookie-0", argv: tuple[str, ...] = SLEEPER, *, port: int = 1, config: str = "") -> Server:
        made.append(
            Server(
                name=name,
                port=port,
                argv=argv,
                env={"GREETING": "hello"},
                record=tmp_path / "run" / f"{name}.pid",
                log=tmp_path / "logs" / f"{name}.log",
                config=config,
            )
        )
        return made[-1]

    yield server
    processes.stop([one.record for one in made], 0.0)


def test_a_started_process_is_found_again_and_stops(make: Callable[..., Server]) -> None:
    server = make()
    assert server.running() is None
    started = server.start()
    assert server.running() == started
    assert started.resident_bytes() > 0
    processes.stop([server.record], 10.0)
    assert ended(started.pid)
    assert server.running() is None
    assert not server.record.exists()


def test_it_leads_no_child_of_ours_and_has_its_own_session(make: Callable[..., Server]) -> None:
    started = make().start()
    assert os.getsid(started.pid) != os.getsid(0)
    with pytest.raises(ChildProcessError):
        os.waitpid(started.pid, os.WNOHANG)


def test_output_and_environment(make: Callable[..., Server]) -> None:
    server = make(argv=("sh", "-c", 'echo "$GREETING"; echo error >&2; exec sleep 600'))
    server.start()
    wait_until(lambda: server.log.read_text() == "hello\nerror\n")
    processes.stop([server.record], 10.0)
    server.start()
    assert server.log.with_name("bookie-0.log.1").read_text() == "hello\nerror\n"


def test_a_reused_pid_is_never_taken_for_the_process(make: Callable[..., Server]) -> None:
    server = make()
    started = server.start()
    told = json.loads(server.record.read_text())
    for wrong in ({"start_ticks": told["start_ticks"] - 1}, {"boot": "another"}):
        server.record.write_text(json.dumps(told | wrong))
        assert server.running() is None
        processes.stop([server.record], 0.0)
        assert not server.record.exists()
        assert not ended(started.pid)
    server.record.write_text(json.dumps(told))
    assert server.running() == started


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"pid": "x"}', "null"])
def test_a_damaged_pid_file_tells_of_nothing(make: Callable[..., Server], text: str) -> None:
    server = make()
    server.record.parent.mkdir()
    server.record.write_text(text)
    assert server.running() is None


def test_one_that_ignores_the_signal_is_killed(make: Callable[..., Server], capsys: pytest.CaptureFixture[str]) -> None:
    server = make(argv=STUBBORN)
    started = server.start()
    wait_until(lambda: server.log.read_text() == "deaf\n")
    begin = time.monotonic()
    processes.stop([server.record], 0.3)
    assert 0.3 <= time.monotonic() - begin < 8.0
    assert ended(started.pid)
    assert "bookie-0 did not stop" in capsys.readouterr().err


def test_several_stop_together(make: Callable[..., Server]) -> None:
    servers = [make(f"bookie-{i}") for i in range(3)]
    pids = [server.start().pid for server in servers]
    processes.stop([server.record for server in servers], 10.0, signal.SIGKILL)
    assert all(ended(pid) for pid in pids)


def test_how_it_died_is_told_with_its_last_words(make: Callable[..., Server]) -> None:
    server = make(argv=("sh", "-c", "seq 1 50; echo Address already in use; exec sleep 0.3"))
    server.start()
    wait_until(lambda: server.running() is None)
    error = server.died()
    assert "bookie-0 ended while it started" in str(error)
    assert "Address already in use" in str(error)
    assert "\n    45\n" in str(error)
    assert "\n    30\n" not in str(error)
    assert str(server.log) in error.hint


def test_the_fingerprint_follows_what_is_run(make: Callable[..., Server]) -> None:
    assert make().fingerprint == make().fingerprint
    assert len({one.fingerprint for one in (make(), make(config="a=1"), make(argv=("sleep", "1")))}) == 3


def test_a_port_answers_while_somebody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert processes.port_answers(port)
    assert not processes.port_answers(port)
