"""`pulsar-readonly demo` beside a running cluster, and its end by Ctrl-C."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from devstack.pulsar.admin import PulsarAdmin
from devstack.pulsar.status import Endpoints
from tests.support.waiting import wait_until

pytestmark = pytest.mark.second_stack

COMMAND = [sys.executable, "-m", "readonly_engine.command", "demo"]
MARK = "PULSAR_READONLY_TEST_DEMO"


def test_one_of_two_brokers_is_killed_and_nothing_is_lost(pulsar: Endpoints, admin: PulsarAdmin) -> None:
    addresses = ["--metadata-store-url", pulsar.metadata_store, "--service-url", pulsar.writer_url]
    done = subprocess.run(
        [*COMMAND, *addresses, "--admin-url", pulsar.admin_url, "--messages", "3000", "--yes"],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [
        line.split() for line in done.stdout.splitlines() if re.match(r"(exclusive|failover|shared) +\w+ +\d", line)
    ]
    assert [(row[0], row[3], row[6], row[8], row[9]) for row in rows] == [
        (name, "3000", "0", "0", "0") for name in ("exclusive", "failover", "shared")
    ], done.stdout
    assert "killed broker 2" in done.stderr
    created = re.search(r"persistent://public/default/pulsar-readonly-demo-[0-9a-f]{6}", done.stderr)
    assert created is not None
    assert f"deleted {created[0]}" in done.stderr
    assert [name for name in admin.topics() if created[0] in name] == []


@pytest.mark.nightly
def test_ctrl_c_leaves_no_partition_in_a_running_cluster(pulsar: Endpoints, admin: PulsarAdmin, tmp_path: Path) -> None:
    """Clients that still run create a deleted topic again."""
    addresses = ["--metadata-store-url", pulsar.metadata_store, "--service-url", pulsar.writer_url, "--yes"]
    log = tmp_path / "err"
    with log.open("w") as err:
        process = subprocess.Popen(
            [*COMMAND, *addresses, "--admin-url", pulsar.admin_url], stdout=err, stderr=err, start_new_session=True
        )
    try:
        wait_until(lambda: process.poll() is not None or "killed broker 2" in log.read_text(), 120)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    finally:
        process.kill()
    created = re.search(r"persistent://public/default/pulsar-readonly-demo-[0-9a-f]{6}", log.read_text())
    assert created is not None
    assert f"deleted {created[0]}" in log.read_text()
    assert [name for name in admin.topics() if created[0] in name] == []


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A demo with its own Pulsar; each of its processes has a variable that names this run."""
    environment = {**os.environ, MARK: str(tmp_path), "TMPDIR": str(tmp_path)}
    with (tmp_path / "err").open("w") as err:
        process = subprocess.Popen(COMMAND, stdout=err, stderr=err, text=True, env=environment, start_new_session=True)
    yield process
    if process.poll() is None:
        process.kill()
    process.wait()


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("after", "sent"),
    [
        pytest.param("starting ZooKeeper", signal.SIGINT, id="starts"),
        pytest.param("a pool of 2 read-only brokers runs", signal.SIGKILL, id="runs"),
        pytest.param("killed broker 2", signal.SIGINT, id="killed"),
    ],
)
def test_an_end_at_any_moment_leaves_no_process(
    demo: subprocess.Popen[str], tmp_path: Path, after: str, sent: signal.Signals
) -> None:
    wait_until(lambda: demo.poll() is not None or after in (tmp_path / "err").read_text(), 120)
    assert demo.poll() is None, (tmp_path / "err").read_text()
    assert len(_processes(tmp_path)) >= 1
    os.kill(demo.pid, sent)
    assert demo.wait(30) == (130 if sent == signal.SIGINT else -signal.SIGKILL)
    wait_until(lambda: not _processes(tmp_path), 10)
    if sent == signal.SIGINT:
        assert [path.name for path in tmp_path.iterdir()] == ["err"]


def _processes(mark: Path) -> list[str]:
    """Return the live processes of a run."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (path / "environ").read_bytes().split(b"\0"):
                found.append((path / "cmdline").read_text().replace("\0", " ")[:100])
        except OSError:
            continue
    return found
