"""The demo, with fewer messages: a pool and a binding are applied, and stock clients read and ack everything through the pool."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
MESSAGES = 2000


def test_stock_clients_read_everything_through_the_pool(operator, writer) -> None:
    command = [sys.executable, "-m", "devstack", "demo", "run", "--messages", str(MESSAGES), "--keep-operator"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=400, check=False)
    try:
        assert done.returncode == 0, done.stdout + done.stderr
        for name, kind, consumers in (("exclusive", "Exclusive", 1), ("shared", "Shared", 3)):
            row = re.search(rf"^{name} +{kind} +(.+)$", done.stdout, re.MULTILINE)
            assert row is not None, done.stdout
            numbers = [int(cell) for cell in row[1].split()]
            # consumers, produced, received, acked, lost, duplicated, backlog, sent by the owner, sent by each broker
            assert numbers[:8] == [consumers, MESSAGES, MESSAGES, MESSAGES, 0, 0, 0, 0]
            assert sum(numbers[8:]) == MESSAGES
    finally:
        operator("delete", "-f", str(ROOT / "examples" / "quickstart.yaml"), "--wait=false")
        operator("delete", "namespace", "pulsar-readonly-demo", "--ignore-not-found", "--wait=false")
