"""Optional C modules: each is a faster twin of Python code, with the same results and errors.

They are built when the package is installed and a C compiler is available. Without them, or with PULSAR_READONLY_PURE=1 in the
environment, the Python code runs.
"""

from __future__ import annotations

import importlib
import os
from typing import Any, Final

PURE_VARIABLE: Final = "PULSAR_READONLY_PURE"

MODULES: Final = (
    "readonly_engine.wire._entries",
    "readonly_engine.wire._acks",
    "readonly_engine.net._send",
    "readonly_spark.rows._decode",
    "readonly_spark.values._avro",
)
"""All C modules."""


def load(name: str) -> Any | None:
    """Import a C module; None if it was not built or is disabled.

    Args:
        name: its full name, one of MODULES.
    """
    if os.environ.get(PURE_VARIABLE) == "1":
        return None
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def missing(prefix: str = "") -> list[str]:
    """Return the C modules with a prefix that were not built, or that are disabled."""
    return [name for name in MODULES if name.startswith(prefix) and load(name) is None]


def main() -> int:
    """Print which C modules this Python has."""
    absent = missing()
    without = f"; without {', '.join(absent)}" if absent else ""
    print(f"{len(MODULES) - len(absent)} of {len(MODULES)} modules in C{without}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
