"""The command `top`: its options, its output for scripts, and its end on a terminal."""

import io
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from typing import ClassVar

import pytest
from readonly_engine.status.view import MAX_PAGE
from readonly_engine.top import command, showing
from readonly_engine.top.command import main
from readonly_engine.top.observed import Observed
from readonly_engine.top.terminal import frame, is_screen

from tests.support.states import SMALL

NOBODY = "http://127.0.0.1:9"
"""A port at which no broker listens."""


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["ftp://a"], "is no URL of a broker's HTTP port"),
        (["--page", "0"], f"'0' must be a whole number from 1 to {MAX_PAGE}"),
        (["--interval", "0.5"], "'0.5' must be a number of seconds from 1 to 3600"),
        (["--interval", "nan"], "'nan' must be a number of seconds"),
        (["--subscription", "s"], "argument --subscription: it needs --topic"),
        (["--output", "yaml"], "invalid choice"),
    ],
)
def test_wrong_options_are_one_clear_error(capsys, argv, message):
    with pytest.raises(SystemExit) as ended:
        main(argv)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


class Client:
    """Brokers that answer as given; `queries` are those of all clients."""

    answers: ClassVar[list[Observed]] = []
    queries: ClassVar[list[str]] = []
    reads = 0

    def __init__(self, urls, query, token="", context=None):
        Client.queries.append(query)
        self.urls = urls

    async def read(self):
        Client.reads += 1
        return list(Client.answers)

    async def close(self):
        pass


@pytest.fixture
def client(monkeypatch):
    monkeypatch.setattr(command, "StatusClient", Client)
    monkeypatch.setattr(showing, "RATE_S", 0.0)
    Client.answers, Client.queries, Client.reads = [Observed("http://a:1", SMALL)], [], 0
    return Client


def test_once_for_scripts(client, capsys):
    assert main(["--once", "--output", "json", "--prefix", "a b"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["brokers"][0]["status"]["broker"]["url"] == SMALL.broker.url
    assert client.queries == ["?prefix=a+b"]
    assert client.reads == 2, "a rate needs two requests"


def test_once_as_text_without_control_characters(client, capsys):
    assert main(["--once"]) == 0
    out = capsys.readouterr().out
    assert "public/default/orders" in out
    assert "\x1b" not in out
    assert "\r" not in out


def test_once_fails_without_an_answer_and_prints_the_others(client, capsys):
    client.answers.append(Observed("http://b:1", error="no answer within 5 s"))
    assert main(["--once"]) == 1
    captured = capsys.readouterr()
    assert "pulsar://orders-0:6650" in captured.out
    assert captured.err == "pulsar-readonly top: 1 of 2 brokers did not answer: http://b:1: no answer within 5 s\n"


def test_a_frame_replaces_the_one_before_on_a_screen_only():
    assert frame(["a", "b"], screen=True) == "\x1b[Ha\x1b[K\r\nb\x1b[K\x1b[J"
    assert frame(["a", "b"], screen=False) == "a\nb\n\n"


@pytest.mark.parametrize(
    ("out", "environment", "screen"),
    [
        (Terminal(), "xterm", True),
        (Terminal(), "dumb", False),
        (Terminal(), None, False),
        (io.StringIO(), "xterm", False),
    ],
)
def test_frames_replace_each_other_on_a_terminal_that_can(out, environment, screen):
    assert is_screen(out, environment) is screen


def started(**streams):
    environment = os.environ | {"TERM": "xterm"}
    argv = [sys.executable, "-m", "readonly_engine.command", "top", NOBODY]
    return subprocess.Popen(argv, stdin=subprocess.DEVNULL, env=environment, **streams)


def read_until(file, text, seconds=60.0):
    read, deadline = b"", time.monotonic() + seconds
    while text not in read:
        ready, _, _ = select.select([file], [], [], max(deadline - time.monotonic(), 0))
        assert ready, f"{text!r} did not come, only {read!r}"
        piece = os.read(file, 65536)
        assert piece, read
        read += piece
    return read


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_terminal_is_given_back_at_the_end(number):
    ours, theirs = pty.openpty()  # of unknown size
    process = started(stdout=theirs, stderr=theirs)
    try:
        assert b"\x1b[?1049h\x1b[?25l" in read_until(ours, NOBODY.encode())
        process.send_signal(signal.SIGWINCH)
        read_until(ours, b"\x1b[H")
        process.send_signal(number)
        last = read_until(ours, b"\x1b[?25h\x1b[?1049l")
        assert b"Traceback" not in last
        assert process.wait(30) == 130
    finally:
        process.kill()
        process.wait(30)
        os.close(ours)
        os.close(theirs)


def test_without_a_terminal_frames_follow_each_other_and_a_closed_pipe_ends_it():
    with started(stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        first = read_until(process.stdout.fileno(), b"\n\n")
        assert b"\x1b" not in first
        process.stdout.close()
        assert process.wait(60) == 0
        assert process.stderr.read() == b""
