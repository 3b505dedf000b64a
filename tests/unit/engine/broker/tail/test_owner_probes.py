"""Probes of owners that push topics, with the time as an argument."""

import asyncio

from readonly_engine.broker.tail import owner_probes as module
from readonly_engine.broker.tail.owner_probes import SILENT_S, OwnerProbes

from tests.support.waiting import until


class Connection:
    """A connection to an owner, which answers PINGs or not."""

    def __init__(self, url="pulsar://one:6650", *, answers=True):
        self.url, self.answers, self.pings = url, answers, 0
        self.last_answered_ping = 0.0

    def probe(self):
        self.pings += 1
        if self.answers:
            self.last_answered_ping += 1.0


class Tail:
    """A topic that an owner pushes."""

    def __init__(self, probes, connection):
        self.probes, self.connection, self.silent = probes, connection, 0
        probes.add(self, connection)

    def on_silent(self):
        self.silent += 1
        self.probes.remove(self, self.connection)


def scene(play):
    async def run():
        play(OwnerProbes())

    asyncio.run(run())


def test_all_topics_of_a_silent_owner_are_given_up_and_no_others():
    def play(probes):
        silent, second, other = Connection(answers=False), Connection(), Connection("pulsar://two:6650")
        given_up = [Tail(probes, silent), Tail(probes, second)]
        kept = Tail(probes, other)
        probes.check(10.0)
        probes.check(10.0 + SILENT_S - 0.1)
        assert [tail.silent for tail in given_up] == [0, 0]
        assert silent.pings == 1, "one PING waits for its answer"
        probes.check(10.0 + SILENT_S)
        assert [tail.silent for tail in given_up] == [1, 1]
        assert kept.silent == 0
        probes.check(20.0)
        assert silent.pings == 1, "nobody probes for nothing"

    scene(play)


def test_the_connections_to_an_owner_take_turns():
    def play(probes):
        connections = [Connection() for _ in range(4)]
        for connection in connections:
            Tail(probes, connection)
        for second in range(8):
            probes.check(float(second))
        assert [connection.pings for connection in connections] == [2, 2, 2, 2]

    scene(play)


def test_a_late_answer_counts():
    def play(probes):
        connection = Connection(answers=False)
        tail = Tail(probes, connection)
        probes.check(0.0)
        connection.last_answered_ping = 0.5
        probes.check(SILENT_S)
        assert (tail.silent, connection.pings) == (0, 2)

    scene(play)


def test_a_probed_connection_that_is_gone_is_no_silent_owner():
    def play(probes):
        silent, other = Connection(answers=False), Connection()
        gone, kept = Tail(probes, silent), Tail(probes, other)
        probes.check(0.0)
        probes.remove(gone, silent)
        probes.check(SILENT_S)
        assert (gone.silent, kept.silent, other.pings) == (0, 0, 1)

    scene(play)


async def test_the_timer_runs_while_there_are_topics(monkeypatch):
    monkeypatch.setattr(module, "PROBE_S", 0.001)
    probes, connection = OwnerProbes(), Connection()
    tail = Tail(probes, connection)
    await until(lambda: connection.pings > 3)
    probes.remove(tail, connection)
    await asyncio.sleep(0.01)
    pings = connection.pings
    await asyncio.sleep(0.01)
    assert connection.pings == pings
    Tail(probes, connection)
    await until(lambda: connection.pings > pings)
