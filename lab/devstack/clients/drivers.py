"""The driver of each client: what starts it, and what has to be made for it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from devstack.clients import golang, java, python

if TYPE_CHECKING:
    from devstack.clients.versions import ClientVersion

DRIVERS: Final = Path(__file__).parents[2] / "longtests" / "compat"
# A quick start counts for more than speed: a driver lives for seconds.
_JVM: Final = ("-Xmx384m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")


def command(client: ClientVersion) -> list[str]:
    """The words that start a client's driver; what it needs is fetched and built when it is missing.

    Raises:
        DevstackError: a tool is missing, or something cannot be fetched or built.
    """
    match client.language:
        case "python":
            return [str(python.ensure_python(client.version)), str(DRIVERS / "python" / "driver.py")]
        case "java":
            return ["java", *_JVM, *java.ensure_java(client.version, DRIVERS / "java", "Driver")]
        case "go":
            return [str(golang.ensure_go(client.version, DRIVERS / "go"))]


def lock(client: ClientVersion) -> None:
    """Resolve again what a client is made of, and pin it.

    Raises:
        DevstackError: a tool is missing, or finds no solution.
    """
    match client.language:
        case "python":
            python.lock(client.version)
        case "java":
            java.lock(client.version)
        case "go":
            golang.lock(client.version, DRIVERS / "go")
