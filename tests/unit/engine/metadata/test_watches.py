"""NodeWatch against a node whose store tells of changes when the test says so."""

import asyncio
import random
from contextlib import asynccontextmanager

import pytest
from readonly_engine.metadata import watches
from readonly_engine.metadata.errors import MetadataUnavailableError
from readonly_engine.metadata.store import check_own
from readonly_engine.metadata.watches import NodeRead, NodeWatch, PollRounds, Refreshes

from tests.support.waiting import until


class Node:
    def __init__(self):
        self.value, self.mark = "one", 1
        self.looks = self.probes = 0
        self.down = False
        self.told = []
        self.rounds = PollRounds()
        self.watch = NodeWatch("/node", self, self.told.append)

    async def read(self, path):
        assert path == "/node"
        self.looks += 1
        await asyncio.sleep(0)
        if self.down:
            raise MetadataUnavailableError("down")
        return NodeRead(self.value, self.mark)

    async def probe(self, path):
        assert path == "/node"
        self.probes += 1
        if self.down:
            raise MetadataUnavailableError("down")
        return self.mark

    def started(self, watch):
        pass

    def stopped(self, watch):
        assert watch is self.watch

    def change(self, value):
        self.value, self.mark = value, (self.mark or 0) + 1


@pytest.fixture
@asynccontextmanager
async def node():
    made = Node()
    try:
        yield made
    finally:
        made.watch.stop()


async def test_what_could_not_be_looked_at_is_looked_at_later(monkeypatch, node):
    monkeypatch.setattr(watches, "RETRY_S", 0.01)
    node.down = True
    await until(lambda: node.looks >= 3)
    assert node.told == []
    node.down = False
    await until(lambda: node.told == ["one"])


async def test_the_slow_poll_finds_a_change_that_no_watch_told_of(monkeypatch, caplog, node):
    monkeypatch.setattr(watches, "POLL_INTERVAL_S", 0.01)
    monkeypatch.setattr(watches, "POLL_SPACING_S", 0.01)
    await until(lambda: node.probes >= 3)
    assert node.looks == 1, "the value is not read again and again"
    node.down = True
    await until(lambda: node.probes >= 6)
    node.change("two")
    node.down = False
    await until(lambda: node.told == ["one", "two"])
    assert "node has changed without its watch, reading again: node=/node" in caplog.text


async def test_a_watch_that_fires_during_a_poll_is_not_called_lost(caplog, node):
    await until(lambda: node.told == ["one"])

    async def probe(_path):
        node.change("two")
        node.watch.refresh()
        return node.mark

    node.probe = probe
    node.watch.poll()
    await until(lambda: node.told == ["one", "two"])
    assert "without its watch" not in caplog.text


async def test_one_timer_polls_all_nodes_by_turns_and_ends_with_the_last(monkeypatch):
    monkeypatch.setattr(watches.random, "uniform", lambda _low, _high: 1.0)
    due, timers = [], []

    def call_later(seconds, call):
        due.append((seconds, call))
        timers.append(asyncio.TimerHandle(0, call, (), asyncio.get_running_loop()))
        return timers[-1]

    monkeypatch.setattr(asyncio.get_running_loop(), "call_later", call_later)
    rounds, probed = PollRounds(), []

    class Nodes:
        def __init__(self):
            self.rounds = rounds

        async def read(self, _path):
            return NodeRead("one", 1)

        async def probe(self, path):
            probed.append(path)
            return 1

        def started(self, _watch):
            pass

        def stopped(self, _watch):
            pass

    many = [NodeWatch(number, Nodes(), lambda _: None) for number in range(50)]
    await asyncio.gather(*(one._task for one in many))
    assert [seconds for seconds, _ in due] == [watches.POLL_INTERVAL_S], "the first one has set the timer"
    many[1].stop()
    for _ in range(51):
        due[-1][1]()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert probed == [0, *range(2, 50), 0, 2]
    assert {seconds for seconds, _ in due[1:]} == {watches.POLL_SPACING_S}
    for one in many[:-1]:
        one.stop()
    due[-1][1]()
    assert due[-1][0] == watches.POLL_INTERVAL_S
    many[-1].stop()
    assert timers[-1].cancelled()


class Crowd:
    """Nodes of one store, whose answers come as the test says."""

    def __init__(self, count):
        self.gate, self.under_way, self.most, self.read_paths = asyncio.Event(), 0, 0, []
        self.gate.set()
        self.rounds = PollRounds()
        self.watches = [NodeWatch(f"/node-{number}", self, lambda _: None) for number in range(count)]

    async def read(self, path):
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0)
        await self.gate.wait()
        self.under_way -= 1
        self.read_paths.append(path)
        return NodeRead(path, 1)

    def started(self, _watch):
        pass

    def stopped(self, _watch):
        pass


async def test_after_a_reconnection_few_nodes_are_read_at_a_time_in_their_order(monkeypatch):
    monkeypatch.setattr(watches, "MAX_REFRESHES", 3)
    crowd, refreshes = Crowd(10), Refreshes()
    paths = [watch.path for watch in crowd.watches]
    await until(lambda: crowd.read_paths == paths)
    crowd.most = 0
    crowd.read_paths.clear()
    crowd.watches[4].stop()
    refreshes.begin([*crowd.watches, *crowd.watches])
    await until(lambda: crowd.read_paths == [path for path in paths if path != "/node-4"])
    assert crowd.most == 3
    await until(lambda: refreshes._task is None)
    crowd.read_paths.clear()
    crowd.gate.clear()
    refreshes.begin(crowd.watches)
    await until(lambda: crowd.under_way == 3)
    refreshes.begin(crowd.watches[:1])  # a second reconnection: the others wait no more
    crowd.gate.set()
    await until(lambda: refreshes._task is None)
    assert sorted(crowd.read_paths) == ["/node-0", "/node-0", "/node-1", "/node-2"]
    for watch in crowd.watches:
        watch.stop()
    refreshes.begin(crowd.watches)
    await until(lambda: refreshes._task is None)


async def test_once_stopped_it_tells_nothing_and_asks_nothing(monkeypatch, node):
    monkeypatch.setattr(watches, "POLL_INTERVAL_S", 0.01)
    await until(lambda: node.told == ["one"])
    node.watch.stop()
    asked = node.looks, node.probes
    node.change("two")
    node.watch.refresh()
    await asyncio.sleep(0.05)
    assert (node.told, (node.looks, node.probes)) == (["one"], asked)


@pytest.mark.parametrize("path", ["/ledgers/00/0000/L0001", "/managed-ledgers/public", "/pulsar-readonly", "/"])
def test_only_our_own_nodes_may_be_written(path):
    check_own("/pulsar-readonly/pools/a")
    with pytest.raises(ValueError, match="must not be written: it is not below /pulsar-readonly"):
        check_own(path)


class Store:
    """One node, whose reads wait for a gate."""

    def __init__(self, value):
        self.value, self.gate, self.rounds, self.watching = value, asyncio.Event(), PollRounds(), []

    async def read(self, path):
        await self.gate.wait()
        return NodeRead((path, self.value), 1)

    probe = read

    def started(self, watch):
        self.watching.append(watch)

    def stopped(self, watch):
        self.watching.remove(watch)


@pytest.mark.parametrize("reads", [True, False], ids=["while it reads", "at rest"])
async def test_a_moved_watch_tells_the_value_of_its_new_store_only(reads):
    told, former, new = [], Store("former"), Store("new")
    if not reads:
        former.gate.set()
    watch, stopped = (NodeWatch(path, former, told.append) for path in ("/a", "/b"))
    await until(lambda: reads or len(told) == 2)
    stopped.stop()
    before = list(told)
    for one in (watch, stopped):
        one.move(new)
    former.gate.set()
    new.gate.set()
    await until(lambda: len(told) > len(before))
    await asyncio.sleep(0)
    assert told[len(before) :] == [("/a", "new")]
    assert (former.watching, new.watching) == ([], [watch])
    assert (former.rounds._count, new.rounds._count) == (0, 1)
    watch.stop()


@pytest.mark.parametrize("seed", range(5))
async def test_the_ring_of_polls_is_a_queue(seed):
    chance, store = random.Random(seed), Store("one")
    rounds = store.rounds
    watches = [NodeWatch(str(number), store, lambda _: None) for number in range(6)]
    expected = []
    for _ in range(300):
        watch, action = chance.choice(watches), chance.randrange(3)
        if action == 0:
            rounds.add(watch)
            expected += [watch] * (watch not in expected)
        elif action == 1:
            rounds.discard(watch)
            expected = [one for one in expected if one is not watch]
        elif expected:
            assert rounds._next is expected[0]
            rounds._next = expected[0].polled_after
            expected.append(expected.pop(0))
        assert rounds._count == len(expected)
        assert (rounds._timer is None) is (not expected)
    for watch in watches:
        watch.stop()
    assert rounds._timer is None
