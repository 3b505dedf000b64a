"""When a worker that no longer answers is restarted."""

import asyncio
import socket

import pytest
from aiohttp import ClientSession
from readonly_engine.config.reader import make_config
from readonly_engine.workers import parent as module
from readonly_engine.workers.liveness import MAX_SILENT, MAX_SILENT_AT_START, Liveness
from readonly_engine.workers.parent import Parent
from readonly_engine.workers.restarts import BACKOFF_S, STABLE_S, Restarts

from tests.unit.engine.config.values import REQUIRED

CONFIG = {**REQUIRED, "workers": 2}


def silence(liveness, questions):
    """What each of so many questions in a row without an answer says."""
    return [liveness.hangs() for _ in range(questions)]


def test_a_worker_that_has_answered_hangs_after_some_silence():
    liveness = Liveness()
    liveness.answered()
    assert silence(liveness, MAX_SILENT) == [False] * (MAX_SILENT - 1) + [True]


def test_one_answer_ends_the_silence():
    liveness = Liveness()
    for _ in range(2):
        liveness.answered()
        assert not any(silence(liveness, MAX_SILENT - 1))


def test_a_start_may_take_longer():
    assert silence(Liveness(), MAX_SILENT_AT_START).index(True) == MAX_SILENT_AT_START - 1


class Process:
    """A process that runs until it is killed."""

    def __init__(self):
        self.returncode = None

    def kill(self):
        self.returncode = -9


async def guarded(url, monkeypatch, *, ends):
    """Exit status of a worker at this URL, after some questions or once it is killed."""
    monkeypatch.setattr(module, "PERIOD_S", 0.05)
    monkeypatch.setattr("readonly_engine.workers.liveness.MAX_SILENT_AT_START", 3)
    parent = Parent(make_config({}, CONFIG), [])
    worker = parent._workers[0]
    process = worker.process = Process()
    worker.http = url
    async with ClientSession() as parent._session:
        guard = asyncio.create_task(parent._guard(worker))
        await asyncio.wait([guard], timeout=10.0 if ends else 1.0)
        guard.cancel()
        await asyncio.gather(guard, return_exceptions=True)
    return process.returncode


def test_a_worker_that_takes_connections_and_never_answers_is_killed(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as listener:  # the kernel completes connections
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        assert asyncio.run(guarded(url, monkeypatch, ends=True)) == -9


@pytest.mark.parametrize("answer", [b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", b""])
async def test_any_answer_and_a_closed_connection_are_signs_of_life(monkeypatch, answer):
    """A flood of strangers may take the place of a question's connection; a worker that closes it lives."""

    async def handle(reader, writer):
        await reader.readline()
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        assert (
            await guarded(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", monkeypatch, ends=False)
        ) is None
    finally:
        server.close()
        await server.wait_closed()


async def test_a_worker_without_an_answer_has_a_reason(monkeypatch):
    assert module.READY_TIMEOUT_S < 2.0, "the kubelet's probe waits 2 s"
    monkeypatch.setattr(module, "READY_TIMEOUT_S", 0.1)
    parent = Parent(make_config({}, CONFIG), [])
    worker = parent._workers[1]
    worker.process = Process()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        worker.http = f"http://127.0.0.1:{listener.getsockname()[1]}"
        async with ClientSession() as parent._session:
            assert (await parent._why_unready(worker)) == "worker 1: does not answer"


async def test_a_worker_that_was_ready_before_the_first_question_hangs_sooner():
    """What polls its readiness has heard it: it may hang before the guard has asked it."""

    async def handle(reader, writer):
        await reader.readline()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    parent = Parent(make_config({}, CONFIG), [])
    worker = parent._workers[0]
    worker.process, worker.http = Process(), f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, ClientSession() as parent._session:
        assert not worker.liveness.heard
        assert await parent._why_unready(worker) == ""
    assert worker.liveness.heard


@pytest.mark.parametrize(
    ("ready", "status", "pause"),
    [
        *((False, status, None) for status in (1, 2)),
        (False, -9, BACKOFF_S[0]),
        *((True, status, BACKOFF_S[0]) for status in (1, 2, 0, -9, 137)),
    ],
)
def test_one_that_cannot_start_ends_all_and_any_other_is_started_again(ready, status, pause):
    restarts = Restarts(ready=ready)
    restarts.started(0.0)
    assert restarts.ended(status, 1.0) == pause


def test_pauses_grow_up_to_a_limit_and_begin_anew_after_a_steady_time():
    restarts = Restarts(ready=True)
    now, pauses = 0.0, []
    for _ in range(8):
        restarts.started(now)
        now += 1.0
        pauses.append(restarts.ended(-9, now))
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    assert restarts.count == 8
    restarts.started(now)
    assert restarts.ended(-9, now + STABLE_S) == BACKOFF_S[0]
