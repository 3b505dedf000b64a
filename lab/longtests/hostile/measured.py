"""`pulsar-readonly serve` on asyncio instead of uvloop, which writes down the long turns of its event loop, for tests.

Run it as `python -m longtests.hostile.measured FILE OPTION...`. Each line of the file is a turn: milliseconds of the processor
without those of the garbage collector, and the callback.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from pathlib import Path
from typing import Any, Final

import uvloop
from readonly_engine import serve

LONG_S: Final = 0.005


def _name(callback: Any) -> str:
    task = getattr(callback, "__self__", None)
    coroutine = task.get_coro() if isinstance(task, asyncio.Task) else None
    return str(getattr(coroutine or callback, "__qualname__", callback))


def main(argv: list[str]) -> int:
    """Run the broker; return its exit status."""
    run = asyncio.Handle._run
    collected = begun = 0.0

    def on_collection(phase: str, _info: dict[str, int]) -> None:
        nonlocal collected, begun
        if phase == "start":
            begun = time.thread_time()
        else:
            collected += time.thread_time() - begun

    gc.callbacks.append(on_collection)
    with Path(argv[0]).open("a", encoding="utf-8", buffering=1) as file:

        def measured(handle: asyncio.Handle) -> None:
            begin = time.thread_time() - collected
            callback = handle._callback  # type: ignore[attr-defined]
            run(handle)
            took = time.thread_time() - collected - begin
            if took > LONG_S:
                file.write(f"{1000 * took:.1f} {_name(callback)}\n")

        asyncio.Handle._run = measured  # type: ignore[method-assign]
        uvloop.run = asyncio.run
        return serve.main(argv[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
