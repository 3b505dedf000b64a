"""Shared parts of the Spark benches: their Pulsar, and writing tables into the documentation."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Final

from devstack.pulsar.cluster import PulsarCluster
from devstack.pulsar.spec import PulsarSpec, Setting

if TYPE_CHECKING:
    from collections.abc import Mapping

DOCUMENT: Final = Path(__file__).parents[3] / "docs" / "explanation" / "spark-performance.md"

BOOKIE_MEMORY: Final = "-Xms256m -Xmx2g -XX:MaxDirectMemorySize=2g"
"""Maximum of Pulsar's own scripts for a bookie; a quarter of it is its read-ahead cache."""

UNSYNCED: Final = ("journalSyncData", "false")
"""Setting of bookies if the measurement does not include writes."""


def pulsar(
    name: str, base_port: int, *bookie: tuple[str, str], broker_environment: Mapping[str, str] | None = None
) -> PulsarCluster:
    """Return a Pulsar with one broker and two bookies that keeps all topics.

    Args:
        name: name of the stack.
        base_port: its first port.
        bookie: additional settings of the bookies.
        broker_environment: additional variables of the broker.
    """
    return PulsarCluster(
        PulsarSpec(
            name=name,
            base_port=base_port,
            bookies=2,
            brokers=1,
            settings=(
                *(Setting("bookie", key, value) for key, value in bookie),
                *(Setting("broker-env", key, value) for key, value in (broker_environment or {}).items()),
                Setting("bookie-env", "BOOKIE_MEM", BOOKIE_MEMORY),
                Setting("broker", "defaultRetentionTimeInMinutes", "600"),
                Setting("broker", "defaultRetentionSizeInMB", "20000"),
                Setting("broker", "brokerDeleteInactiveTopicsEnabled", "false"),
            ),
        )
    )


def inserted(document: str, name: str, made: str) -> str:
    """Return the page with a table between its two marks.

    Args:
        document: the page.
        name: name in the marks, `<!-- NAME: made by ...` and `<!-- end of NAME -->`.
        made: the table.
    """
    begin = document.index("-->\n", document.index(f"<!-- {name}: made by")) + len("-->\n")
    end = document.index(f"<!-- end of {name} -->", begin)
    return f"{document[:begin]}{made.rstrip()}\n{document[end:]}"


def write(name: str, made: str) -> None:
    """Write a table into docs/explanation/spark-performance.md."""
    DOCUMENT.write_text(inserted(DOCUMENT.read_text(encoding="utf-8"), name, made), encoding="utf-8")


def machine() -> str:
    """Return a description of this machine."""
    return f"{os.cpu_count()} CPUs, {platform.machine()}, Python {platform.python_version()}"
