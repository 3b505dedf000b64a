"""The optional modules in C: each does what a module in Python does as well, in less time.

They are built where the package is installed and a C compiler is there. Without them, and with PULSAR_READONLY_PURE=1 in the
environment, Python does all the work; results and errors are the same.
"""

from __future__ import annotations

import importlib
import os
from typing import Any, Final

PURE_VARIABLE: Final = "PULSAR_READONLY_PURE"

MODULES: Final = (
    "readonly_engine.wire._entries",
    "readonly_engine.wire._acks",
    "readonly_engine.broker._send",
    "readonly_spark.rows._decode",
)
"""All of them."""


def load(name: str) -> Any | None:
    """A module in C; None where it was not built, or is not wanted.

    Args:
        name: its full name, one of MODULES.
    """
    if os.environ.get(PURE_VARIABLE) == "1":
        return None
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def main() -> int:
    """Say which modules in C this Python has."""
    missing = [name for name in MODULES if load(name) is None]
    without = f"; without {', '.join(missing)}" if missing else ""
    print(f"{len(MODULES) - len(missing)} of {len(MODULES)} modules in C{without}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
