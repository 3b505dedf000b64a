#!/usr/bin/env python3
"""Write environment variables into configuration files, as Apache Pulsar's own image does at the start of a container.

A variable that is called like a key of the file replaces its value; one with the prefix PULSAR_PREFIX_ also adds a key
that the file does not have. usage: apply_config.py FILE [FILE ...]
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_PREFIX = "PULSAR_PREFIX_"


def apply(text: str, environment: Mapping[str, str]) -> str:
    """The file's text with the values of the environment.

    A key that is commented out takes its value too, where it stands: Pulsar keeps the first of two equal keys.
    """
    wanted = {name: value for name, value in environment.items() if not name.startswith(_PREFIX)}
    forced = {name[len(_PREFIX) :]: value for name, value in environment.items() if name.startswith(_PREFIX)}
    done: set[str] = set()
    lines = []
    live = {line.partition("=")[0].strip() for line in text.splitlines() if not line.startswith("#")}
    for line in text.splitlines():
        found = re.match(r"(#\s*)?([\w.]+)\s*=", line)
        key = found[2] if found else ""
        value = forced.get(key, wanted.get(key))
        if found is None or value is None or key in done or (found[1] and key in live):
            lines.append(line)
            continue
        lines.append(f"{key}={value}")
        done.add(key)
    lines.extend(f"{key}={value}" for key, value in forced.items() if key not in done)
    return "\n".join(lines) + "\n"


def main(files: list[str]) -> None:
    """Rewrite each file in place."""
    for file in files:
        path = Path(file)
        path.write_text(apply(path.read_text(), os.environ))


if __name__ == "__main__":
    main(sys.argv[1:])
