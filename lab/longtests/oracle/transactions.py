"""Transactions of the stock Java client: the Python client has none."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from devstack.pulsar.distribution import ensure_distribution

if TYPE_CHECKING:
    from collections.abc import Sequence

    from devstack.pulsar.cluster import PulsarCluster

SOURCE: Final = Path(__file__).parent / "java" / "Transactions.java"
TIMEOUT_S: Final = 600.0


class TransactionsError(Exception):
    """The Java program failed."""


@dataclass(frozen=True, slots=True)
class Ended:
    """Numbers of transactions by their end, and of the messages sent."""

    committed: int
    aborted: int
    open: int
    messages: int


def publish_transactions(
    stack: PulsarCluster, topics: Sequence[str], seed: int, transactions: int, *, leave_open: bool
) -> Ended:
    """Publish transactions to each topic.

    Args:
        stack: the source cluster, with transactions.
        topics: the topics.
        seed: determines the messages.
        transactions: number of transactions for each topic.
        leave_open: whether the last topic ends with a transaction that is neither committed nor aborted.

    Raises:
        TransactionsError: the program failed.
    """
    home = ensure_distribution(stack.spec.version)
    arguments = [stack.endpoints.writer_url, str(seed), str(transactions), str(leave_open).lower(), *topics]
    ran = subprocess.run(
        ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{home}/lib/*", str(SOURCE), *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    told = re.search(r"^committed (\d+) aborted (\d+) open (\d+) messages (\d+)$", ran.stdout, re.MULTILINE)
    if ran.returncode or told is None:
        lines = (ran.stderr + ran.stdout).splitlines()
        raise TransactionsError("the Java client failed:\n  " + "\n  ".join(lines[-15:]))
    return Ended(*map(int, told.groups()))
