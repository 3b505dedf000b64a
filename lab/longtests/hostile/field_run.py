"""Sends each field of each command at its extremes to a server, and sees how it reacts."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from readonly_engine.wire.pulsar_pb2 import BaseCommand

from longtests.hostile.attacks import PING, Attacker
from longtests.hostile.commands import ANSWERS, CLOSES, IGNORES, SILENT, open_both
from longtests.hostile.fields import Extreme, extremes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ANSWER_S: Final = 60.0
"""The broker answers each request, after 30 s also in place of an owner that does not."""

LISTEN_S: Final = 0.01

_UNASKED: Final = frozenset(
    {
        BaseCommand.PING,
        BaseCommand.PONG,
        BaseCommand.MESSAGE,
        BaseCommand.ACTIVE_CONSUMER_CHANGE,
        BaseCommand.REACHED_END_OF_TOPIC,
        BaseCommand.WATCH_TOPIC_UPDATE,
    }
)
_UNANSWERED: Final = frozenset({"ACK", "AUTH_RESPONSE", "CONNECT", "FLOW", "REDELIVER_UNACKNOWLEDGED_MESSAGES", "SEND"})
"""Commands that a server may answer, ignore or close the connection for."""

_OF_NEW_CONNECTIONS: Final = frozenset({"CONNECT", "AUTH_RESPONSE"})
_ENDING: Final = frozenset({"CLOSE_CONSUMER", "CLOSE_PRODUCER", "SEEK", "SUBSCRIBE", "UNSUBSCRIBE"})
"""Commands after which the next one gets a new connection: they end what it has, or others may follow."""


def react_to_all(name: str, url: str, make_topic: Callable[[], str]) -> dict[Extreme, str]:
    """Send all frames of a command; return the server's reactions.

    Args:
        name: name of the command.
        url: URL of the server.
        make_topic: returns the name of a new topic.
    """
    found: dict[Extreme, str] = {}
    frames = list(extremes(name, make_topic()))
    while frames:
        with _connection(url, make_topic(), connect=name not in _OF_NEW_CONNECTIONS) as attacker:
            while frames and not attacker.closed:
                one = frames.pop()
                found[one] = _react(attacker, one)
                if name in _ENDING or found[one] == SILENT:
                    break
    return found


@contextmanager
def _connection(url: str, topic: str, *, connect: bool) -> Iterator[Attacker]:
    """Connect, with a consumer 0 and a producer 0 if it is a connection with CONNECT."""
    with Attacker(url, connect=connect) as attacker:
        if connect:
            open_both(attacker, topic, ANSWER_S)
        yield attacker


def _react(attacker: Attacker, one: Extreme) -> str:
    before = len(attacker.heard)
    attacker.send(one.frame)
    attacker.send(PING)
    answered = False
    deadline = time.monotonic() + ANSWER_S
    while time.monotonic() < deadline and not attacker.closed:
        heard = [command.type for command in attacker.heard[before:]]
        answered = any(kind not in _UNASKED for kind in heard)
        if BaseCommand.PONG in heard and (answered or one.command in _UNANSWERED):
            break
        attacker.listen(LISTEN_S)
    if attacker.closed:
        return CLOSES
    if answered:
        return ANSWERS
    return IGNORES if one.command in _UNANSWERED and BaseCommand.PONG in heard else SILENT
