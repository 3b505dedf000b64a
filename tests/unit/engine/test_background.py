"""Work that continues although something nobody expected has happened."""

import asyncio
import json
import logging

import pytest
import uvloop
from readonly_engine import background


def test_a_loop_that_fails_begins_again_and_says_so(monkeypatch, caplog):
    monkeypatch.setattr(background, "RESTART_DELAY_S", 0)
    began = []

    async def work():
        began.append(len(began))
        if len(began) < 3:
            raise KeyError("surprise")

    async def run():
        async with asyncio.timeout(5):
            await background.run_forever(work, "the work")

    with caplog.at_level(logging.ERROR):
        asyncio.run(run())
    assert began == [0, 1, 2]
    said = [record for record in caplog.records if "the work failed unexpectedly" in record.message]
    assert len(said) == 2
    assert all("surprise" in str(record.exc_info[1]) for record in said)


@pytest.mark.parametrize(
    ("now", "interval_s", "due"),
    [
        (10.0, 1.0, 11.0),
        (9.9994, 1.0, 11.0),  # a timer of uvloop may fire this early
        (10.001, 1.0, 11.0),
        (10.49, 1.0, 11.0),
        (10.51, 1.0, 12.0),  # the first one, from any time on
        (10.0, 0.5, 10.5),
    ],
)
def test_repeated_work_has_its_ticks_together(now, interval_s, due):
    assert background.next_tick(now, interval_s) == due


class Part:
    """A part of a broker."""

    def __init__(self):
        self.ended = 0

    def end(self):
        self.ended += 1

    @background.ends("end")
    def work(self, fails):
        if fails:
            raise KeyError("surprise")

    @background.ends("end")
    def stop(self):
        raise asyncio.CancelledError


def test_an_error_in_a_callback_ends_its_part_and_is_logged(caplog):
    part = Part()
    part.work(False)
    assert (part.ended, caplog.records) == (0, [])
    part.work(fails=True)
    assert part.ended == 1
    assert "Part.work failed unexpectedly; end follows" in caplog.text
    with pytest.raises(asyncio.CancelledError):
        part.stop()
    assert part.ended == 1


@pytest.mark.parametrize(("outcome", "errors"), [(None, 0), (KeyError("surprise"), 1), (asyncio.CancelledError(), 0)])
async def test_an_error_of_a_task_that_nobody_awaits_ends_its_part(outcome, errors, caplog):
    ended = []

    async def work():
        if outcome is not None:
            raise outcome

    task = asyncio.create_task(work())
    background.end_with(task, ended.append)
    await asyncio.wait([task])
    await asyncio.sleep(0)
    assert ended == [outcome] * errors
    assert caplog.text.count("work failed unexpectedly") == errors


def fail(*_):
    raise KeyError("surprise")


async def fail_later():
    fail()


class Protocol(asyncio.Protocol):
    def data_received(self, data):
        fail()


def start(kind):
    """Start what fails."""
    loop = asyncio.get_running_loop()
    if kind == "call_soon":
        loop.call_soon(fail)
    elif kind == "call_later":
        loop.call_later(0.001, fail)
    elif kind == "done callback":
        loop.create_future().add_done_callback(fail)
        asyncio.ensure_future(asyncio.sleep(0)).add_done_callback(fail)
    elif kind == "must_not_fail":
        background.must_not_fail(asyncio.ensure_future(fail_later()))
    elif kind == "protocol":
        loop.call_soon(Protocol().data_received, b"")
    elif kind == "other package":
        loop.call_soon(json.loads, "{")
    elif kind == "cancelled":
        task = asyncio.ensure_future(fail_later())
        background.must_not_fail(task)
        task.cancel()


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_a_timer_fires_by_its_time_also_if_it_is_due_at_once(run):
    async def main():
        loop = asyncio.get_running_loop()
        now = loop.time()
        at_once, later = loop.call_at(now - 1, list), loop.call_at(now + 10, list)
        assert [background.fires_by(timer, now + 5) for timer in (None, at_once, later)] == [False, True, False]
        assert background.fires_by(later, now + 10.1)  # uvloop rounds to milliseconds
        later.cancel()

    run(main())


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
@pytest.mark.parametrize(
    ("kind", "stops"),
    [
        ("call_soon", True),
        ("call_later", True),
        ("done callback", True),
        ("must_not_fail", True),
        ("protocol", False),
        ("other package", False),
        ("cancelled", False),
    ],
)
def test_an_error_in_a_callback_that_ends_nothing_smaller_ends_the_process(run, kind, stops, caplog):
    async def main():
        stop = asyncio.Event()
        package = "readonly_engine" if kind == "must_not_fail" else __name__.partition(".")[0]
        guard = background.ProcessGuard(package, stop.set)
        guard.install()
        start(kind)
        if stops:
            async with asyncio.timeout(10):
                await stop.wait()
        else:
            for _ in range(10):
                await asyncio.sleep(0)
        assert stop.is_set() == stops
        return guard.error

    error = run(main())
    assert isinstance(error, KeyError) == stops
    assert bool(caplog.text) == (kind != "cancelled"), "the error is logged in any case"
