"""Which Java runs the servers of a release: 5.0 needs 21 (its classes have version 65), and Debian 12 has 17."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Final

from devstack.errors import DevstackError

INSTALLED: Final = Path("/usr/lib/jvm")
"""Where packages of Java are."""

_OLD: Final = 17
_NEW: Final = 21


def needed_java(version: str) -> int:
    """Return the oldest Java that runs a release of Pulsar."""
    return _NEW if int(version.partition(".")[0]) >= 5 else _OLD


def java_environment(version: str) -> dict[str, str]:
    """Return the variable with which Pulsar's scripts run a Java that is new enough; empty where theirs is.

    JAVA_HOME counts, then the `java` of PATH, then the newest one below `INSTALLED`.

    Args:
        version: the release of Pulsar.

    Raises:
        DevstackError: there is no such Java.
    """
    needed = needed_java(version)
    home = os.environ.get("JAVA_HOME")
    where = f"JAVA_HOME={home}" if home else "PATH"
    java = shutil.which(f"{home}/bin/java" if home else "java")
    said = _version(java) if java else ""
    if (java_major(said) or 0) >= needed:
        return {}
    others = {path.parents[1]: java_major(_version(str(path))) or 0 for path in INSTALLED.glob("*/bin/java")}
    newest = max(others, key=lambda one: others[one], default=None)
    if newest is not None and others[newest] >= needed:
        return {"JAVA_HOME": str(newest)}
    hint = f"Pulsar {version} needs Java {needed} or newer; install it, or set JAVA_HOME to one"
    if java is None:
        raise DevstackError(f"java is missing ({where})", hint)
    raise DevstackError(f"java is too old ({where}): {(said.splitlines() or ['no version'])[0]}", hint)


def java_program(version: str) -> str:
    """Return the Java program that runs the classes of a release; the errors are those of `java_environment`."""
    home = java_environment(version).get("JAVA_HOME") or os.environ.get("JAVA_HOME")
    return f"{home}/bin/java" if home else "java"


def java_major(version: str) -> int | None:
    """Return the major version in the output of `java -version`; None without one."""
    match = re.search(r'version "(\d+)(?:\.(\d+))?', version)
    if match is None:
        return None
    first, second = match.groups()
    return int(second) if first == "1" and second else int(first)


@cache
def _version(java: str) -> str:
    return subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
