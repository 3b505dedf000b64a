"""The chaos in short: a few faults on a stack in namespaces (`make -C lab chaos` is the full form)."""

import os
import random
import subprocess
import sys

import pytest


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
def test_nothing_is_lost_or_disordered_under_a_few_random_faults() -> None:
    seed = random.SystemRandom().randrange(1 << 31)
    command = [sys.executable, "-m", "longtests.chaos", "--seed", str(seed), "--minutes", "0.75"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert ran.returncode == 0, ran.stdout + ran.stderr
