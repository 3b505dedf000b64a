import os
import subprocess
from pathlib import Path

import pytest

from bench.quota import limited
from devstack.errors import DevstackError

ROOT = Path("/sys/fs/cgroup")
GROUPS = ROOT / "cpu" if (ROOT / "cpu").is_dir() else ROOT


@pytest.mark.skipif(not os.access(GROUPS / "cgroup.procs", os.W_OK), reason="only root may make control groups")
def test_a_process_is_limited_within_the_context_only():
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        group = GROUPS / f"pulsar-readonly-bench-{os.getpid()}-{process.pid}"
        with limited(process.pid, 0.15):
            assert (group / "cgroup.procs").read_text().split() == [str(process.pid)]
            limit = "cpu.cfs_quota_us" if GROUPS != ROOT else "cpu.max"
            assert (group / limit).read_text().split()[0] == "1500"
        assert not group.exists()
        assert str(process.pid) in (GROUPS / "cgroup.procs").read_text().split()
        with limited(process.pid, 0.15):
            process.communicate()
        assert not group.exists()


def test_a_missing_right_is_named(tmp_path):
    with pytest.raises(DevstackError, match="run this bench as root"), limited(1, 0.15, tmp_path / "none"):
        pass
