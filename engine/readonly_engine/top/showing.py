"""Show figures once or again and again, whoever reads them. It needs the standard library only."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import TYPE_CHECKING, Final, Protocol

from readonly_engine.tool.errors import ToolError
from readonly_engine.top.observed import Observed, merged
from readonly_engine.top.screen import render
from readonly_engine.top.terminal import Terminal

if TYPE_CHECKING:
    import argparse

RATE_S: Final = 1.1
"""Time between the two requests of --once. A broker gives a rate one second after the first."""


class StatusReader(Protocol):
    """Reads the states of brokers."""

    async def read(self) -> list[Observed]:
        """Return a result for each broker; a broker without an answer has the reason."""
        ...


async def show(reader: StatusReader, options: argparse.Namespace) -> None:
    """Show the figures as the options of `add_screen_options` say.

    Raises:
        ToolError: with --once, a broker does not answer.
    """
    if options.once:
        await _show_once(reader, options.output)
    else:
        await _refresh(reader, options)


async def _show_once(reader: StatusReader, output: str) -> None:
    await reader.read()
    await asyncio.sleep(RATE_S)
    observed = await reader.read()
    terminal = Terminal(sys.stdout)
    lines = [_json(observed)] if output == "json" else render(observed, terminal.size[0])
    sys.stdout.write("\n".join([*lines, ""]))
    silent = [one for one in observed if one.status is None]
    if silent:
        raise ToolError(f"{len(silent)} of {len(observed)} brokers did not answer: {silent[0].url}: {silent[0].error}")


async def _refresh(reader: StatusReader, options: argparse.Namespace) -> None:
    observed: list[Observed] = []
    began = time.monotonic()
    while options.output == "json":
        began = await _next(reader, observed, began)
        sys.stdout.write(f"{_json(observed)}\n")
        sys.stdout.flush()
        await asyncio.sleep(options.interval)
    with Terminal(sys.stdout) as terminal:

        def draw() -> None:
            if observed:
                terminal.show(render(observed, *terminal.size))

        terminal.on_resize(draw)
        while True:
            began = await _next(reader, observed, began)
            draw()
            await asyncio.sleep(options.interval)


async def _next(reader: StatusReader, observed: list[Observed], began: float) -> float:
    """Replace what is known by the results of further requests; return the time of these."""
    newer = await reader.read()
    now = time.monotonic()
    observed[:] = merged(observed, newer, now - began)
    return now


def _json(observed: list[Observed]) -> str:
    return json.dumps({"brokers": [one.document() for one in observed]})
