import subprocess
import sys
from pathlib import Path

import pytest

from devstack.common.run import succeeds

PROJECT = Path(__file__).resolve().parents[3]

SCRIPT = """set -e
mount -t tmpfs tmpfs .
mkdir lower upper work merged
mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work overlay merged
PYTHONPATH=$2 exec "$1" -c 'from devstack.common.overlay import *; print(*map(storage_drivers, [".", "merged"]))'
"""


@pytest.mark.skipif(not succeeds(["unshare", "-m", "true"]), reason="mounting needs root")
def test_no_overlay_is_mounted_on_an_overlay(tmp_path: Path) -> None:
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", SCRIPT, "sh", sys.executable, str(PROJECT / "lab")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "('overlay', 'overlayfs') ('vfs', 'native')\n", done.stderr
