"""Malformed frames of a command, each on a separate connection, beside an innocent client."""

from __future__ import annotations

import mmap
import socket
import struct
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from readonly_engine.wire.commands import body_of, encode_command
from readonly_engine.wire.errors import MalformedFrameError
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandProducer, CommandSubscribe

from devstack.errors import DevstackError
from longtests.hostile.attacks import PING, Attacker
from longtests.hostile.frames import CLIENT_COMMANDS, MALFORMED, SERVER_COMMANDS, malformed
from longtests.hostile.run import SLOWER_S, Innocent, make_topic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from devstack.pool import BrokerProcess

CLOSES: Final = "closes"
REFUSES: Final = "error"
ANSWERS: Final = "answers"
IGNORES: Final = "ignores"
SILENT: Final = "silent"
"""The server sends no PONG, and keeps the connection."""

PONG_S: Final = 5.0
ANSWER_S: Final = 0.3
REST_S: Final = 0.5
"""Time for an answer after the PONG (ANSWER_S), and for a reaction to a frame whose rest never comes (REST_S)."""

SLACK: Final = {"tasks": 20, "resident": 64 << 20}
"""Allowed increase: tasks of the broker's connections to owners and bookies, and memory of its caches."""

_RESET: Final = struct.pack("ii", 1, 0)


class CommandRow(NamedTuple):
    """A row of the table.

    Attributes:
        title: title in the table.
        commands: names of the commands, which run together.
    """

    title: str
    commands: tuple[str, ...]

    @property
    def name(self) -> str:
        """Name on the command line."""
        return self.commands[0].lower().replace("_", "-") if len(self.commands) == 1 else "server-commands"


ROWS: Final = (
    *(CommandRow(name, (name,)) for name in CLIENT_COMMANDS),
    CommandRow(f"{len(SERVER_COMMANDS)} commands of servers", SERVER_COMMANDS),
)


class Reactions(NamedTuple):
    """The reactions of one server to the frames of one row.

    Attributes:
        by_frame: distinct reactions for each key of MALFORMED, sorted.
        slowest: slowest PING of the innocent client, in seconds.
        losses: number of times that the innocent client lost its connection, consumer or producer.
    """

    by_frame: Mapping[str, tuple[str, ...]]
    slowest: float
    losses: int


def run_row(row: CommandRow, url: str, topics: str) -> Reactions:
    """Send all frames of a row to a server.

    Args:
        row: the row.
        url: URL of a broker that serves the topics.
        topics: prefix of topic names.
    """
    with Innocent(url, make_topic(url, topics)) as innocent, ThreadPoolExecutor(len(MALFORMED)) as attackers:
        found = {
            how: [attackers.submit(react, url, make_topic(url, topics), name, how) for name in row.commands]
            for how in MALFORMED
        }
        by_frame = {how: tuple(sorted({one.result() for one in futures})) for how, futures in found.items()}
    return Reactions(by_frame, innocent.slowest, innocent.losses)


def react(url: str, topic: str, name: str, how: str) -> str:
    """Send one malformed frame; return the server's reaction.

    The client has consumer 0 and producer 0, except before CONNECT.

    Args:
        url: URL of the server.
        topic: a new topic.
        name: name of the command.
        how: a key of MALFORMED.
    """
    with Attacker(url, connect=how != "no-connect") as attacker:
        if how != "no-connect":
            open_both(attacker, topic)
        before = len(attacker.heard)
        attacker.send(malformed(name, how, topic))
        if how == "rest-missing":
            attacker.listen(REST_S)
            attacker.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)  # reset within the frame
        else:
            attacker.send(PING)
            attacker.listen(PONG_S, BaseCommand.PONG)
            attacker.listen(ANSWER_S)
        return _reaction(attacker, attacker.heard[before:], how)


def open_both(attacker: Attacker, topic: str, seconds: float = PONG_S) -> None:
    """Create the consumer and the producer, in so many seconds each.

    Raises:
        DevstackError: the server does not create both.
    """
    subscribe = CommandSubscribe(
        topic=topic, subscription="s", sub_type=CommandSubscribe.Shared, consumer_id=0, request_id=100
    )
    producer = CommandProducer(topic=topic, producer_id=0, request_id=101)
    attacker.send(encode_command(BaseCommand(type=BaseCommand.SUBSCRIBE, subscribe=subscribe)))
    attacker.listen(seconds, BaseCommand.SUCCESS)
    attacker.send(encode_command(BaseCommand(type=BaseCommand.PRODUCER, producer=producer)))
    attacker.listen(seconds, BaseCommand.PRODUCER_SUCCESS)
    if {BaseCommand.SUCCESS, BaseCommand.PRODUCER_SUCCESS} - {command.type for command in attacker.heard}:
        raise DevstackError(f"{topic} cannot be consumed and published to", str(attacker.heard))


def _reaction(attacker: Attacker, heard: Sequence[BaseCommand], how: str) -> str:
    said = []
    for command in heard:
        if _is_error(command):
            said.append(REFUSES)
        elif command.type not in {BaseCommand.PING, BaseCommand.PONG}:
            said.append(ANSWERS)
    if attacker.closed:
        said.append(CLOSES)
    elif not said:
        ponged = any(command.type == BaseCommand.PONG for command in heard)
        said.append(IGNORES if ponged or how == "rest-missing" else SILENT)
    return ", ".join(dict.fromkeys(said))


def _is_error(command: BaseCommand) -> bool:
    try:
        body = body_of(command)
    except MalformedFrameError:
        return False  # an answer of a transaction coordinator
    return "error" in body.DESCRIPTOR.fields_by_name and body.HasField("error")


def worse_row(owner: Reactions, pool: Reactions) -> list[str]:
    """Return the ways in which the pool is worse than the owner."""
    faults = []
    if pool.losses > owner.losses:
        faults.append(f"an innocent client lost {pool.losses} things, at the owner {owner.losses}")
    if pool.slowest > owner.slowest + SLOWER_S:
        faults.append(f"an innocent client's PING took {pool.slowest:.2f} s, at the owner {owner.slowest:.2f} s")
    for how, reactions in pool.by_frame.items():
        if SILENT in reactions and SILENT not in owner.by_frame[how]:
            faults.append(f"{MALFORMED[how]}: no PONG within {PONG_S:g} s")
    return faults


def broker_counts(broker: BrokerProcess) -> dict[str, int]:
    """Return a broker's numbers of connections, consumers, producers, tasks and topics, and its bytes of buffers and memory."""
    stats = broker.stats()
    status = Path(f"/proc/{broker.process.pid}/statm").read_text(encoding="utf-8")
    found = {name: int(stats[name]) for name in ("connections", "consumers", "producers", "bufferedBytes", "tasks")}
    return {**found, "topics": len(stats["topics"]), "resident": int(status.split()[1]) * mmap.PAGESIZE}


def settled(before: Mapping[str, int], now: Mapping[str, int]) -> bool:
    """Return whether the attacks have left nothing in the broker.

    Args:
        before: counts (`broker_counts`) before the attacks.
        now: counts after them.
    """
    return all(now[name] <= before[name] + SLACK.get(name, 0) for name in before)
