"""CPU of a read-only broker for one entry that an owner pushes, from the owner's frame to the clients' sockets.

`python -m longtests.push_cost --topics 1000 --readers 1` uses the real parts in one process, with TCP sockets, and no cluster.
Each entry arrives alone, as while messages are few. `--usual` is for comparison: it measures the same without splices.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from typing import Final

import uvloop

from tests.support.pushed_topics import Stage, received, stored_entry

WARM_UP: Final = 4
PAUSE_S: Final = 0.03
"""Time between two entries of a topic: longer than the intervals of its dispatches."""


async def measure(arguments: argparse.Namespace) -> str:
    """Measure one shape; return a line with the figures."""
    stage = Stage(splices=not arguments.usual, cache_bytes=1 << 30)
    clients = []
    for _ in range(arguments.topics):
        topic = await stage.topic()
        for _ in range(arguments.readers):
            connection, client = await stage.client()
            topic.subscribe(connection)
            clients.append(client)
    body, clock = bytes(arguments.size), time.thread_time_ns
    rounds, size = [], 0
    for number in range(WARM_UP + arguments.rounds):
        cpu = 0
        for frame in [topic.frame(stored_entry(topic.next, body)) for topic in stage.topics]:
            began = clock()
            stage.owner.connection.data_received(frame)
            stage.clients.write_coalescer.flush()
            cpu += clock() - began
        await asyncio.sleep(PAUSE_S)
        size += sum(len(received(client)) for client in clients)
        if number >= WARM_UP:
            rounds.append(cpu / arguments.topics / 1000)
    stage.close()
    rounds.sort()
    assert size > (WARM_UP + arguments.rounds) * len(clients) * arguments.size, "clients lack entries"
    median, least, most = rounds[len(rounds) // 2], rounds[0], rounds[-1]
    return (
        f"{arguments.topics} topics, {arguments.readers} readers each, {'usual way' if arguments.usual else 'splices'}: "
        f"{median:.1f} µs of CPU per entry ({least:.1f} to {most:.1f}, {len(rounds)} rounds)\n"
    )


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m longtests.push_cost", description=__doc__)
    parser.add_argument("--topics", type=int, default=1000, help="number of topics (default %(default)s)")
    parser.add_argument("--readers", type=int, default=1, help="readers of each topic, each alone on its connection")
    parser.add_argument("--rounds", type=int, default=20, help="entries of each topic (default %(default)s)")
    parser.add_argument("--size", type=int, default=1024, help="bytes of an entry's body (default %(default)s)")
    parser.add_argument("--usual", action="store_true", help="without splices")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        sys.stdout.write(runner.run(measure(parser.parse_args())))


if __name__ == "__main__":
    main()
