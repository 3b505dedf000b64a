"""A splice and the usual way, with the same pushes and the same events: the same bytes for clients, and the same counts."""

import asyncio
import math
import random
import struct
import time
from contextlib import closing

import pytest
from readonly_engine.broker.dispatch.latency import LatencySampler
from readonly_engine.broker.dispatch.rate import RateLimit
from readonly_engine.broker.subscription.pause import Pause
from readonly_engine.broker.tail import tail_consumer as tail_module
from readonly_engine.broker.tail.budget import PushRate, TailSettings
from readonly_engine.broker.tail.tail_splice import TailSplice
from readonly_engine.config.limits import DispatchRate
from readonly_engine.topic.log import TopicLog
from readonly_engine.topic.position import Position
from readonly_engine.wire.acks import PlainAck, encode_ids
from readonly_engine.wire.commands import decode_command, encode_command
from readonly_engine.wire.framing import FrameSplitter
from readonly_engine.wire.message_pb2 import BrokerEntryMetadata, EncryptionKeys
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandCloseConsumer
from readonly_engine.wire.splice import make_splice

from tests.support.pushed_topics import Stage, received, stored_entry
from tests.support.waiting import until

pytestmark = pytest.mark.skipif(make_splice is None, reason="a C compiler is optional; CI has one")

SETTINGS = TailSettings("tail", PushRate(1e6, 10_000, 1e9))


class Counted:
    """The tail of a splice; it counts the messages."""

    def __init__(self, scene, tail):
        self.scene, self.tail = scene, tail

    def __getattr__(self, name):
        return getattr(self.tail, name)

    def on_spliced(self, last, messages, size):
        self.scene.spliced += messages
        self.tail.on_spliced(last, messages, size)


class Scene:
    """One topic with one reader, and the result."""

    def __init__(self, stage):
        self.stage = stage
        self.spliced = 0
        self.extra = []

    async def open(self, **options):
        self.topic = await self.stage.topic()
        tail = self.topic.tail
        if tail._fanout is not None:
            tail._splice = TailSplice(tail._log, tail._fanout, tail._splicing, Counted(self, tail))
        self.connection, self.client = await self.stage.client()
        self.subscription, self.consumer = self.topic.subscribe(self.connection, 7, **options)
        self.bytes = b""

    async def push(self, *stored, together=False, skip=0):
        """Let entries arrive, one by one or together, each after the earlier ones were dispatched."""
        frames = [self.topic.frame(one, skip=skip if at == 0 else 0) for at, one in enumerate(stored)]
        await self.arrive(*([b"".join(frames)] if together else frames))

    async def arrive(self, *reads):
        for data in reads:
            self.stage.push(data)
            await self.rest()

    async def rest(self):
        notifiers = [topic.log._notifier for topic in self.stage.topics]
        await until(lambda: not any(one._handle or one._gathering or one._due for one in notifiers))
        for topic in self.stage.topics:
            topic.make_readable()
        self.stage.clients.write_coalescer.flush()
        self.bytes += received(self.client)

    async def entries(self, count):
        """Let plain entries arrive one by one."""
        for _ in range(count):
            await self.push(None)

    def flow(self, permits):
        self.consumer.dispatch_state.permits += permits
        self.subscription.add_permits(self.consumer, permits)

    def ack(self, *entry_ids):
        entries = [(self.topic.ledger_id, entry_id) for entry_id in entry_ids]
        ack = PlainAck(7, entries, encode_ids(entries))
        assert self.subscription.ack_entries(self.consumer, ack)

    def result(self):
        """Everything that must be the same."""
        tail, log = self.topic.tail, self.topic.log
        delivered = [topic.tail.delivered for topic in self.stage.topics]
        self.subscription.flush_accounting()
        counters, state = self.subscription.counters, self.consumer.dispatch_state
        limit = log.limit
        if tail._splice is not None and tail._splice.running:
            tail._splice.end()
        return {
            "frames": by_consumer(self.bytes),
            "extra": self.extra,
            "consumer": (self.consumer.messages, self.consumer.bytes, state.permits),
            "counters": (counters.entries, counters.messages, counters.bytes, counters.acks),
            "next": self.subscription._dispatcher._next,
            "limit": limit,
            "mark_delete": self.subscription.mark_delete,
            "notified": log._notifier._notified,
            "owner's end": log.owner_end.position,
            "lac": {ledger_id: one.lac for ledger_id, one in log._tails.items()},
            "pushed": delivered,
            "tail": (tail._next, tail._unacked, tail.pushed),
            "permits of the owner": self.stage.owner.permits(self.topic.consumer_id),
        }


def by_consumer(data):
    """The frames of each consumer, in order."""
    frames = {}
    for frame in FrameSplitter().receive_data(data):
        frames.setdefault(decode_command(frame)[0].message.consumer_id, []).append(frame)
    return frames


def both(scene, settings=SETTINGS, **options):
    """Play a scene with and without splices; return the number of spliced messages and the result, which is the same."""
    found = []
    for splices in (False, True):

        async def play(splices=splices):
            with closing(Stage(splices=splices, settings=settings)) as stage:
                played = Scene(stage)
                await played.open(**options)
                await scene(played)
                await played.rest()
                found.append((played.result(), played.spliced))

        asyncio.run(play())
    (usual, none), (result, spliced) = found
    assert none == 0
    assert result == usual
    return spliced, result


def batch(messages):
    return stored_entry(0, b"batch", num_messages_in_batch=messages)


@pytest.mark.parametrize("permits", range(8))
@pytest.mark.parametrize("messages", [1, 2, 3])
def test_permits_end_at_the_same_entry(permits, messages):
    async def scene(stage):
        for _ in range(5):
            await stage.push(batch(messages))
        stage.flow(1)
        await stage.rest()
        stage.flow(2)
        await stage.rest()
        await stage.entries(2)

    both(scene, permits=permits)


ODD = {
    "a marker": stored_entry(1, b"", marker=True),
    "a message of a transaction": stored_entry(1, b"", txnid_least_bits=1, txnid_most_bits=2),
    "half the id of a transaction": stored_entry(1, b"", txnid_least_bits=1),
    "a batch": batch(3),
    "an empty batch": batch(0),
    "a negative batch": batch(-1),
    "a delayed message": stored_entry(1, b"", deliver_at_time=1 << 45),
    "a part of a large message": stored_entry(1, b"", uuid="u", chunk_id=0, num_chunks_from_msg=2),
    "an encrypted message": stored_entry(1, b"", encryption_keys=[EncryptionKeys(key="k", value=b"v")]),
    "no message": b"no message",
    "nothing": b"",
}


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_an_odd_entry_among_plain_ones(odd, together):
    async def scene(stage):
        await stage.entries(3)
        await stage.push(None, odd, None, None, together=together)
        await stage.entries(3)

    assert both(scene)[0] >= 2


@pytest.mark.parametrize("exposed", [False, True])
def test_the_owners_own_metadata_is_sent_where_it_is_exposed(exposed):
    encoded = BrokerEntryMetadata(broker_timestamp=5, index=9).SerializeToString()

    async def scene(stage):
        stage.consumer.dispatch_state.exposed = exposed
        for number in range(4):
            await stage.push(b"\x0e\x02" + struct.pack(">I", len(encoded)) + encoded + stored_entry(number, b"body"))

    assert both(scene)[0] == 2


def closed_by_the_owner(scene):
    close = BaseCommand(type=BaseCommand.CLOSE_CONSUMER, close_consumer=CommandCloseConsumer())
    close.close_consumer.consumer_id = scene.topic.consumer_id
    return scene.topic.frame() + encode_command(close)


async def joins(scene):
    """A second consumer of the topic joins between two reads; it gets what comes then."""
    connection, client = await scene.stage.client()
    scene.topic.subscribe(connection, 7)
    await scene.push(None, None, together=True)
    await scene.entries(2)
    scene.extra.append(received(client))


async def is_redelivered(scene):
    scene.subscription.redeliver(scene.consumer, [])


async def is_acked_ahead(scene):
    await scene.entries(1)
    scene.ack(3)


async def stops_and_goes_on(scene):
    scene.subscription.pause(Pause.OWNER)
    await scene.entries(2)
    scene.subscription.resume(Pause.OWNER)


async def is_slow(scene):
    for writable in (False, True):
        scene.subscription.leave_fanout()
        scene.consumer.dispatch_state.writable = writable
        await scene.entries(1)
    scene.subscription.read_more()


async def comes_again(scene):
    scene.topic.next -= 2
    await scene.arrive(scene.topic.frame(redelivery_count=1), scene.topic.frame())


async def is_counted(scene):
    scene.extra.append(scene.topic.tail.delivered)
    scene.subscription.flush_accounting()
    scene.extra.append((scene.subscription.counters.messages, scene.subscription.backlog))


async def is_waited_for(scene):
    end = scene.topic.log.owner_end
    scene.extra.append(end.counts(scene.topic.log.limit))
    await scene.entries(1)
    future = Position(scene.topic.ledger_id, scene.topic.next)
    end.call_when_counted(future, lambda: scene.extra.append("counted"))
    await scene.entries(1)


async def is_confirmed(scene):
    log = scene.topic.log
    log.confirm(log.limit)
    scene.extra.append((log.owner_end.position, log.limit))


async def is_confirmed_ahead(scene):
    scene.topic.log.confirm(Position(scene.topic.ledger_id, scene.topic.next))


async def has_no_lease(scene):
    def suspend(_):
        scene.subscription.pause(Pause.OWNER)
        return math.inf

    scene.stage.guard.add(suspend)
    scene.stage.guard.due = 0.0


async def leaves(scene):
    scene.subscription.remove(scene.consumer)


async def has_new_policies(scene):
    scene.topic.tail._unsubscribe()


# test_random_events plays the other ones.
@pytest.mark.parametrize(
    "event",
    [
        joins,
        is_acked_ahead,
        is_slow,
        comes_again,
        is_waited_for,
        is_confirmed_ahead,
        has_no_lease,
        leaves,
        has_new_policies,
    ],
)
def test_an_event_between_entries(event):
    async def scene(stage):
        await stage.entries(4)
        await event(stage)
        await stage.rest()
        if stage.topic.tail.pushed:
            await stage.entries(3)

    assert both(scene)[0] >= 2


def test_transactions_that_begin_end_the_splice():
    async def scene(stage):
        await stage.entries(4)
        stage.topic.transactions.guard()
        assert stage.topic.tail._splice is None or not stage.topic.tail._splice.running

    assert both(scene)[0] == 2


def test_the_owner_closes_its_consumer_behind_an_entry():
    async def scene(stage):
        await stage.entries(4)
        await stage.arrive(closed_by_the_owner(stage))

    spliced, result = both(scene)
    assert (spliced, result["tail"][2]) == (3, False)


@pytest.mark.parametrize("burst", [2, 10, 11, 12])
def test_the_owner_gets_permits_at_the_same_entry(burst):
    async def scene(stage):
        await stage.entries(14)

    both(scene, TailSettings("tail", PushRate(1e6, burst, 1e9)))


@pytest.mark.parametrize("bytes_", [60, 90, 120, 150, 200])
def test_too_many_bytes_end_the_pushes_at_the_same_entry(bytes_):
    async def scene(stage):
        for _ in range(10):
            if stage.topic.tail.pushed:
                await stage.push(None)

    both(scene, TailSettings("tail", PushRate(1e-3, 1000, bytes_ * 1e-6)))


def test_a_limited_subscription_is_not_spliced():
    async def scene(stage):
        await stage.entries(6)

    rates = (RateLimit(DispatchRate(1000, 0), time.monotonic()),)
    assert both(scene, rates=rates)[0] == 0


def test_an_entry_that_is_not_the_next_one_takes_the_usual_way():
    async def scene(stage):
        await stage.entries(4)
        stage.stage.push(stage.topic.frame(skip=1), stage.topic.frame())
        # The entry between is read from a bookie, and there is none.
        await until(lambda: stage.subscription.counters.read_failures or stage.topic.log._notifier._gathering is None)

    assert both(scene)[0] == 2


def test_topics_of_one_connection_leave_together(monkeypatch):
    writes, counts = [], []

    async def scene(stage):
        second = await stage.stage.topic()
        second.subscribe(stage.connection, 8)
        topics = [stage.topic, second]
        for _ in range(4):
            for topic in topics:
                stage.stage.push(topic.frame())
                await stage.rest()
        write = type(stage.connection)._write
        with monkeypatch.context() as patched:
            patched.setattr(type(stage.connection), "_write", lambda *args: (writes.append(1), write(*args)))
            stage.stage.push(*(topic.frame() for topic in topics for _ in range(3)))
            await stage.rest()
        counts.append(len(writes))
        writes.clear()

    both(scene)
    usual, spliced = counts
    assert usual < 6
    assert spliced == 0  # the reader has written to the socket


def test_a_client_that_does_not_read_gets_everything_in_order():
    async def scene(stage):
        await stage.entries(3)
        received(stage.client)
        for number in range(40):
            stage.stage.push(stage.topic.frame(stored_entry(number, bytes([number]) * 200_000)))
            await asyncio.sleep(0)

        async def read():
            while stage.consumer.dispatch_state.permits > (1 << 30) - 43 or stage.connection.buffered:
                stage.bytes += received(stage.client)
                await asyncio.sleep(0.001)
                stage.subscription.flush_accounting()

        await asyncio.wait_for(read(), 30)

    both(scene)


def test_a_high_rate_is_spliced_too():
    """Entries behind each other would wait for the interval of dispatches, and no splice would ever begin."""

    async def scene(stage):
        await stage.open()
        await stage.entries(2)
        if splice := stage.topic.tail._splice:
            splice.end()
        before = stage.spliced
        stage.topic.log._notifier._flush_interval.notified(asyncio.get_running_loop().time() + 0.3)
        for _ in range(20):
            stage.stage.push(stage.topic.frame(None))
            await asyncio.sleep(0)
        if splice:
            splice.end()
            assert stage.spliced - before > 15
        await stage.rest()

    both(scene)


async def test_the_cursor_at_the_owner_follows_and_an_idle_topic_has_no_timer(monkeypatch):
    monkeypatch.setattr(tail_module, "ACK_S", 0.01)
    stage = Stage(settings=SETTINGS)
    played = Scene(stage)
    await played.open()
    await played.entries(4)
    tail = played.topic.tail
    assert tail._splice.running

    def acked():
        acks = [one.ack.message_id[0].entry_id for one in stage.owner.received if one.type == BaseCommand.ACK]
        return acks and acks[-1] == 3

    await until(acked)
    await until(lambda: tail._ack_timer is None)
    assert not tail._splice.running
    await played.entries(2)
    assert played.spliced == 2  # one that delivered nothing lets one more entry take the usual way
    stage.close()


def test_splices_that_deliver_nothing_are_tried_less_and_less(monkeypatch):
    begin = TopicLog.begin_splice

    async def scene(stage):
        begun = []

        def begin_splice(*args):
            ledger = begin(*args)
            if ledger is not None:
                begun.append(args[1])
            return ledger

        monkeypatch.setattr(TopicLog, "begin_splice", begin_splice)
        await stage.entries(2)
        for _ in range(100):
            await stage.push(ODD["an encrypted message"])
        assert len(begun) <= 8

    both(scene)


async def test_a_client_that_cannot_be_sent_to_harms_no_other(caplog):
    stage = Stage()
    broken, sound = Scene(stage), Scene(stage)
    for played in (broken, sound):
        await played.open()
        await played.entries(2)
    received(sound.client)
    stage.splicing.deliver({None: [b"x"], sound.connection: [b"a", b"b"]}, sound.topic.tail._splice._splice)
    await until(lambda: received(sound.client) == b"ab")
    stage.close()
    assert "a client cannot be sent to" in caplog.text


async def test_only_the_last_spliced_entry_is_cached():
    """A client may ask for it (GET_LAST_MESSAGE_ID); the others have been read by the only consumer.

    Metrics flush the splice again and again. With an entry of each time in the cache, a read of all would need many requests.
    """
    stage = Stage()
    played = Scene(stage)
    await played.open()
    await played.entries(2)
    first = played.topic.next
    for _ in range(4):
        stage.push(played.topic.frame())
        assert played.topic.tail._splice.lags
        assert played.topic.tail.delivered.messages
    played.topic.tail._splice.end()
    cached = [Position(played.topic.ledger_id, first + at) in stage.cache for at in range(4)]
    assert cached == [False, False, False, True]
    stage.close()


async def test_the_latency_of_a_spliced_entry_is_sampled():
    stage = Stage()
    played = Scene(stage)
    await played.open()
    await played.entries(2)
    latency = stage.splicing.latency = LatencySampler(lambda _: None)
    await played.push(stored_entry(2), stored_entry(3))
    assert (sum(latency.tail.counts), latency.due) == (1, False)
    stage.close()


HARMLESS = [one for name, one in ODD.items() if name != "a message of a transaction"]  # that would end all deliveries
STEPS = ["entries", "together", "flow"] * 4 + ["odd", "ack", "redeliver", "pause", "count", "confirm", "timer"]


async def random_step(stage, choose):
    step = choose.choice(STEPS)
    tail = stage.topic.tail
    if step == "entries":
        await stage.entries(choose.randint(1, 4))
    elif step == "together":
        await stage.push(*[None] * choose.randint(2, 5), together=True)
    elif step == "odd":
        await stage.push(None, choose.choice(HARMLESS), None, together=choose.random() < 0.5)
    elif step == "flow":
        stage.flow(choose.randint(1, 6))
    elif step == "ack" and stage.subscription._dispatcher.outstanding and stage.topic.log.limit is not None:
        stage.subscription.flush_accounting()
        following = stage.subscription._dispatcher._next
        stage.ack(choose.randrange(max(following.entry_id, 1)))
    elif step == "redeliver":
        await is_redelivered(stage)
    elif step == "pause":
        await stops_and_goes_on(stage)
    elif step == "count":
        await is_counted(stage)
    elif step == "confirm" and stage.topic.log.limit is not None:
        await is_confirmed(stage)
    elif step == "timer":
        tail._ack_due()


@pytest.mark.parametrize("seed", range(12))
def test_random_events(seed):
    async def scene(stage):
        choose = random.Random(seed)
        for _ in range(40):
            await random_step(stage, choose)
            await stage.rest()

    both(scene, permits=random.Random(seed).randint(1, 40))
