"""What the benches of Spark share: their Pulsar, and how tables get into the document."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from devstack.pulsar.cluster import PulsarCluster
from devstack.pulsar.spec import PulsarSpec, Setting

if TYPE_CHECKING:
    from devstack.errors import DevstackError

DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "explanation" / "spark-performance.md"

BOOKIE_MEMORY: Final = "-Xms256m -Xmx2g -XX:MaxDirectMemorySize=2g"
"""The most that Pulsar's own scripts let a bookie have; a quarter of it is its cache for reading ahead."""

UNSYNCED: Final = ("journalSyncData", "false")
"""Of bookies, where writing is no part of the measurement."""


def pulsar(name: str, base_port: int, *bookie: tuple[str, str]) -> PulsarCluster:
    """A Pulsar whose topics stay as they are: one broker, two bookies.

    Args:
        name: the stack's.
        base_port: its first port.
        bookie: settings of the bookies, beside the stock ones.
    """
    return PulsarCluster(
        PulsarSpec(
            name=name,
            base_port=base_port,
            bookies=2,
            brokers=1,
            settings=(
                *(Setting("bookie", key, value) for key, value in bookie),
                Setting("bookie-env", "BOOKIE_MEM", BOOKIE_MEMORY),
                Setting("broker", "defaultRetentionTimeInMinutes", "600"),
                Setting("broker", "defaultRetentionSizeInMB", "20000"),
                Setting("broker", "brokerDeleteInactiveTopicsEnabled", "false"),
            ),
        )
    )


def inserted(document: str, name: str, made: str) -> str:
    """The document with a table between its two marks.

    Args:
        document: the text.
        name: of the marks, `<!-- NAME: made by ...` and `<!-- end of NAME -->`.
        made: the table.
    """
    begin = document.index("-->\n", document.index(f"<!-- {name}: made by")) + len("-->\n")
    end = document.index(f"<!-- end of {name} -->", begin)
    return f"{document[:begin]}{made.rstrip()}\n{document[end:]}"


def write(name: str, made: str) -> None:
    """Put a table into docs/explanation/spark-performance.md."""
    DOCUMENT.write_text(inserted(DOCUMENT.read_text(encoding="utf-8"), name, made), encoding="utf-8")


def machine() -> str:
    """Where it was measured."""
    return f"{os.cpu_count()} CPUs, {platform.machine()}, Python {platform.python_version()}"


def give_up(bench: str, error: DevstackError) -> int:
    """Tell why a bench could not be measured; its exit status."""
    print(f"{bench}: {error}", *filter(None, [error.hint]), sep="\n  ", file=sys.stderr)  # noqa: T201
    return 1
