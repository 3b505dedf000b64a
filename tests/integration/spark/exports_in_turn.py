"""`pulsar-readonly export` again and again in one process: Java and Spark's session start once.

    python -m tests.integration.spark.exports_in_turn LEASE_SECONDS

Each line of standard input is a command line, as a list in JSON. Its exit status comes on standard output, as a line of JSON.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final, Self

from tests.integration.spark.export_process import DEADLINE_S, ROOT
from tests.support.waiting import wait_until

RENEWALS: Final = 6
"""A lease is renewed so often before it ends, as the product does."""


class ExportsInTurn:
    """A process group of the command.

    Args:
        folder: where its output goes.
        name: the name of its files there.
        lease_s: how long its leases live.
    """

    def __init__(self, folder: Path, name: str, lease_s: float) -> None:
        self._answers, self._errors = folder / f"{name}.answers", folder / f"{name}.errors"
        with self._answers.open("wb") as answers, self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.integration.spark.exports_in_turn", str(lease_s)],
                cwd=ROOT, stdin=subprocess.PIPE, stdout=answers, stderr=errors, start_new_session=True, text=True,
            )  # fmt: skip
        self._asked = 0
        self._read = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()

    def start(self, words: list[str]) -> None:
        """Begin an export, by its options."""
        self._asked += 1
        self._read = self._errors.stat().st_size
        assert self._process.stdin is not None
        print(json.dumps(words), file=self._process.stdin, flush=True)

    def statuses(self) -> list[int]:
        """The exit statuses of the exports that have ended."""
        assert self._process.poll() is None, self.said()
        return [int(line) for line in self._answers.read_text().splitlines() if line.removeprefix("-").isdigit()]

    @property
    def busy(self) -> bool:
        """Whether an export runs."""
        return len(self.statuses()) < self._asked

    def wait(self) -> int:
        """Wait for the end of an export; its exit status."""
        wait_until(lambda: not self.busy, DEADLINE_S, "the end of an export")
        return self.statuses()[-1]

    def said(self) -> str:
        """Standard error of the last export."""
        with self._errors.open("rb") as errors:
            errors.seek(self._read)
            return errors.read().decode(errors="replace")

    def suspend(self) -> None:
        """Stop the command and its JVM (SIGSTOP)."""
        os.killpg(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let them go on."""
        os.killpg(self._process.pid, signal.SIGCONT)


def main() -> None:
    """Run the exports of standard input."""
    # Not in the process of the tests.
    from pyspark.sql import SparkSession  # noqa: PLC0415
    from readonly_spark.export import command, lease  # noqa: PLC0415

    lease.LEASE_S = float(sys.argv[1])  # type: ignore[misc]
    lease.RENEW_S = lease.LEASE_S / RENEWALS  # type: ignore[misc]
    SparkSession.stop = lambda _: None  # type: ignore[method-assign]
    for line in sys.stdin:
        sys.stdout.write(f"{command.main(json.loads(line))}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
