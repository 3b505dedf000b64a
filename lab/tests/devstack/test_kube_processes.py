import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from devstack.common.locks import file_lock
from devstack.common.processes import start_ticks
from devstack.common.run import run, succeeds, wait_until
from devstack.errors import DevstackError
from devstack.kube.node_processes import NodeProcesses

PROJECT = Path(__file__).resolve().parents[3]
WRAPPER = ["sh", "-c", '"$@"; :', "sh"]  # like nsenter: a parent with the program as its only child


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[NodeProcesses]:
    made = NodeProcesses(tmp_path / "records", tmp_path / "logs")
    yield made
    for name in made.names():
        made.stop(name, signal.SIGKILL)


def test_a_process_is_started_once_and_replaced_when_its_arguments_change(processes: NodeProcesses) -> None:
    def ensure(seconds: str) -> bool:
        return processes.ensure("sleeper", ["sleep", seconds], wrapper=WRAPPER, env=os.environ)

    assert ensure("300")
    first = processes.pid("sleeper")
    command = Path(f"/proc/{first}/cmdline")  # of the wrapper, until its child has become the program
    wait_until(lambda: command.read_text() == "sleep\x00300\x00", 10, "the program runs")
    assert not ensure("300")
    assert processes.pid("sleeper") == first
    assert ensure("301")
    assert processes.pid("sleeper") != first
    assert first is not None
    assert start_ticks(first) is None


def test_a_record_of_a_pid_that_another_process_has_now_is_not_believed(
    processes: NodeProcesses, tmp_path: Path
) -> None:
    (tmp_path / "records").mkdir()
    record = f'{{"pid": {os.getpid()}, "started": "1", "key": ""}}'
    (tmp_path / "records" / "old.json").write_text(record)
    assert processes.names() == ["old"]
    assert processes.pid("old") is None
    processes.stop("old")
    assert processes.names() == []


def test_stop_kills_a_process_that_ignores_the_signal(processes: NodeProcesses, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    stubborn = ["sh", "-c", f"trap '' TERM; touch {ready}; while :; do sleep 0.05; done"]
    processes.ensure("stubborn", stubborn, wrapper=WRAPPER, env=os.environ)
    wait_until(ready.exists, 10, "the trap is set")
    pid = processes.pid("stubborn")
    assert pid is not None
    processes.stop("stubborn", patience=0.2)
    assert start_ticks(pid) is None


def test_the_wrapper_of_a_stopped_process_goes_on_with_it(processes: NodeProcesses) -> None:
    # As nsenter does: it stops itself as its child is stopped, and would not reap it then.
    wrapper = ["sh", "-c", 'trap "" CHLD; "$@" & kill -STOP $$; wait; :', "sh"]
    processes.ensure("still", ["sleep", "300"], wrapper=wrapper, env=os.environ)
    pid = processes.pid("still")
    assert pid is not None
    outer = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    wait_until(lambda: state(outer) == "T", 10, "the wrapper stands still")
    processes.stop("still", signal.SIGKILL)
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), 10, "the process is reaped")


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_the_end_of_a_process_is_reported_with_its_last_words(processes: NodeProcesses) -> None:
    processes.ensure("brief", ["sh", "-c", "sleep 0.2; echo its last words"], wrapper=WRAPPER, env=os.environ)
    wait_until(lambda: processes.pid("brief") is None, 10, "brief has ended")
    with pytest.raises(DevstackError, match="brief has ended") as error:
        processes.require("brief")
    assert "its last words" in error.value.hint


def test_the_lock_is_held_by_one_and_names_its_holder(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    code = (
        "import sys; from pathlib import Path; from devstack.common.locks import file_lock\n"
        f"with file_lock(Path({str(path)!r}), 'test'):\n    print('held', flush=True); sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=PROJECT
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with (
            pytest.raises(DevstackError, match=f"test: process {holder.pid} has held"),
            file_lock(path, "test", timeout_s=0.2),
        ):
            pytest.fail("two at once")
        holder.communicate("", timeout=10)
    with file_lock(path, "test", timeout_s=5):
        assert path.read_text() == str(os.getpid())


def test_run_says_what_failed_and_why() -> None:
    with pytest.raises(DevstackError, match="testing: sh failed with status 3") as error:
        run(["sh", "-c", "echo because >&2; exit 3"], what="testing")
    assert error.value.hint == "because"
    with pytest.raises(DevstackError, match="testing: the program no-such-program is missing"):
        run(["no-such-program"], what="testing")
    with pytest.raises(DevstackError, match="testing: sleep did not end within 0 s"):
        run(["sleep", "30"], what="testing", timeout=0.1)
    assert not succeeds(["no-such-program"])


def test_waiting_ends_at_its_deadline() -> None:
    begin = time.monotonic()
    with pytest.raises(DevstackError, match="the moon: not within 0 s"):
        wait_until(lambda: False, 0.1, "the moon", pause=0.01)
    assert time.monotonic() - begin < 5
