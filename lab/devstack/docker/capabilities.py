"""Capabilities that root lacks, and a runtime that does not ask for them.

`docker run --privileged`, which kind needs, asks for every capability that Docker knows. The kernel refuses that by EPERM of
capset(2) if one of them is not in root's bounding set, as in many containers and sandboxes.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

_STATUS: Final = Path("/proc/self/status")
DROPPED: Final = {24: "CAP_SYS_RESOURCE"}
"""Capabilities, by number (capabilities(7)), without which kind's nodes run all the same."""


def bounding_set(status: str | None = None) -> int:
    """Return the capability bounding set as a bit mask.

    Args:
        status: text of /proc/PID/status; this process's by default.
    """
    text = _STATUS.read_text() if status is None else status
    found = re.search(r"^CapBnd:\s*([0-9a-f]+)$", text, re.MULTILINE)
    return int(found[1], 16) if found else ~0


def missing_capabilities(bounds: int) -> list[str]:
    """Return the names of those in `DROPPED` that a bounding set lacks."""
    return [name for number, name in sorted(DROPPED.items()) if not bounds >> number & 1]


def runtime_script(runc: str, missing: list[str]) -> str:
    """Return a shell script that is runc but for capabilities: it removes some from what a container asks for.

    Args:
        runc: path of runc.
        missing: names of the capabilities.
    """
    edits = " ".join(f"""-e 's/"{name}",//g' -e 's/,"{name}"//g' -e 's/"{name}"//g'""" for name in missing)
    return f"""#!/bin/bash
# runc, without capabilities that root does not have on this machine.
previous=
for argument in "$@"; do
  case $previous in
    --bundle|-b) sed -i {edits} "$argument/config.json" ;;
    --process|-p) sed -i {edits} "$argument" ;;
  esac
  previous=$argument
done
exec {runc} "$@"
"""
