"""LacFollower during fast writes, against a model of a bookie that counts its reads."""

import asyncio
import struct
from collections import Counter

import pytest
from readonly_engine.bookkeeper.lac_follower import LacFollower
from readonly_engine.bookkeeper.ledger import LedgerReader
from readonly_engine.bookkeeper.pool import BookiePool
from readonly_engine.wire.bookkeeper_pb2 import ENOENTRY, EOK, READ_LAC, Request, Response
from readonly_engine.wire.bookkeeper_pb2 import LedgerMetadataFormat as Metadata
from readonly_engine.wire.ledgers import LedgerMetadata

from tests.support.waiting import until
from tests.unit.engine.bookkeeper.test_reads import LEDGER, body

DEADLINE_S = 60
TICK_S = 0.001
PAUSE_S = 5 * TICK_S
TOGETHER = 10
"""Entries written in a tick: a rate for batch reads on any machine."""

WAITED = 3
TRIES = 20


class Bookie:
    """Holds a ledger of which entry N carries the LAC N - 1."""

    def __init__(self, *, batches):
        self.written = 0
        self.read = Counter()
        self.batches = 0
        self._knows_batches = batches
        self._grown = asyncio.Condition()

    @property
    def lac(self):
        return self.written - 2

    async def write(self, count):
        async with self._grown:
            self.written += count
            self._grown.notify_all()

    async def serve(self, reader, writer):
        polls = set()
        try:
            while True:
                frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                if frame[0] == 2:
                    if not self._knows_batches:
                        break
                    self._send(writer, self.batch(frame))
                    continue
                request = Request.FromString(frame)
                if request.header.operation == READ_LAC:
                    self._send(writer, self.last(request))
                else:
                    polls.add(asyncio.create_task(self.poll(request, writer)))
        except asyncio.IncompleteReadError:
            pass
        finally:
            for poll in polls:
                poll.cancel()
            writer.close()

    def _send(self, writer, frame):
        writer.write(len(frame).to_bytes(4, "big") + frame)

    def last(self, request):
        response = Response(header=request.header, status=EOK)
        response.read_lac_response.status = EOK
        response.read_lac_response.last_entry_body = body(self.written - 1)
        return response.SerializeToString()

    async def poll(self, request, writer):
        read = request.read_request
        response = Response(header=request.header, status=EOK)
        entry_id = read.entry_id
        if read.HasField("previous_lac"):
            async with self._grown:
                try:
                    async with asyncio.timeout(read.time_out / 1000):
                        await self._grown.wait_for(lambda: self.lac > read.previous_lac)
                except TimeoutError:
                    pass
        if read.flag == read.ENTRY_PIGGYBACK:
            response.read_response.max_lac = self.lac
            if self.lac > read.previous_lac:
                self._bring(read.previous_lac + 1, response)
        elif entry_id < self.written:
            self._bring(entry_id, response)
        else:
            response.status = ENOENTRY
        response.read_response.status = response.status
        self._send(writer, response.SerializeToString())

    def _bring(self, entry_id, response):
        self.read[entry_id] += 1
        response.read_response.body = body(entry_id)

    def batch(self, frame):
        _, _, first, request_id, count, _ = struct.unpack(">iqqqiq", frame)
        self.batches += 1
        entries = range(first, min(first + count, self.written))
        self.read.update(entries)
        head = struct.pack(">iiqqq", 0x02070000, 0 if entries else 2, LEDGER, first, request_id)
        bodies = [body(entry_id) for entry_id in entries]
        return head + b"".join(struct.pack(">i", len(one)) + one for one in bodies)


def follow(scene, *, batches=True, entries=True, names="a"):
    """Run a scene with the bookie and the follower's calls: LACs with the entries of their replies.

    With several names the ledger is striped over so many bookies, of which the first is near. The scene gets all of them.
    """

    async def run():
        bookies = {name: Bookie(batches=batches) for name in names}
        bookie = bookies[names[0]]
        servers = {name: await asyncio.start_server(one.serve, "127.0.0.1", 0) for name, one in bookies.items()}

        async def resolve(name):
            return servers[name].sockets[0].getsockname()[:2]

        told = []

        class Log:
            pause, wants_entries = PAUSE_S, entries

            def lac_advanced(self, _, lac, new):
                assert lac <= max(one.lac for one in bookies.values()), "beyond what is confirmed"
                told.append((lac, [entry.entry_id for entry in new]))

            async def ask_owner(self):
                pass

        for one in bookies.values():
            await one.write(1)
        pool = BookiePool(resolve)
        pool.replica_order.move("/a")
        pool.replica_order.place({name: f"/{name}" for name in names})
        metadata = LedgerMetadata(
            ensembles=((0, tuple(names)),),
            write_quorum=1,
            ack_quorum=1,
            closed=False,
            last_entry_id=-1,
            digest_type=Metadata.CRC32C,
        )
        tail = LacFollower(LedgerReader(LEDGER, metadata, pool), Log())
        tail.resume()
        try:
            async with asyncio.timeout(DEADLINE_S):
                await scene(bookie if len(names) == 1 else list(bookies.values()), tail, told)
        finally:
            tail.stop()
            pool.close()
            await pool.wait_closed()
            for server in servers.values():
                server.close()

    asyncio.run(run())


async def write_quickly(bookie, tail, ticks):
    for _ in range(ticks):
        await bookie.write(TOGETHER)
        await asyncio.sleep(TICK_S)
    await until(lambda: tail.lac == bookie.lac)


def test_while_entries_flow_they_are_read_some_at_a_time_and_each_once():
    async def scene(bookie, tail, told):
        await write_quickly(bookie, tail, 30)
        bookie.read.clear()
        before, began = bookie.batches, len(told)
        first = bookie.written
        await write_quickly(bookie, tail, 200)
        assert bookie.batches > before
        lacs = [lac for lac, _ in told[began:]]
        assert lacs == sorted(lacs)
        brought = {entry_id for _, entries in told[began:] for entry_id in entries}
        wanted = range(first, bookie.written - 1)
        # If the machine stalls, the LAC goes idle: then a poll returns one of several entries, and an unconfirmed one again.
        assert len(brought.intersection(wanted)) >= 0.9 * len(wanted)
        assert sum(bookie.read[entry_id] for entry_id in wanted) <= 1.03 * len(wanted)

    follow(scene)


def test_where_only_the_lac_is_needed_few_entries_are_read_at_any_rate():
    async def scene(bookie, tail, told):
        await write_quickly(bookie, tail, 30)
        bookie.read.clear()
        await write_quickly(bookie, tail, 200)
        assert not bookie.batches
        assert all(len(entries) <= 1 for _, entries in told)
        assert sum(bookie.read.values()) <= 0.2 * 200 * TOGETHER

    follow(scene, entries=False)


def test_far_bookies_send_an_entry_only_for_a_lac_that_no_near_one_reports():
    async def scene(bookies, tail, told):
        near, *far = bookies
        for _ in range(100):
            for one in (near, *far):
                await one.write(1)
            await until(lambda: tail.lac == near.lac)
        assert sum(near.read.values()) >= 50
        assert max(sum(one.read.values()) for one in far) <= 20
        for one in far:  # a near bookie has no copy of each entry, nor each explicit LAC
            await one.write(1)
        await until(lambda: tail.lac == far[0].lac)

    follow(scene, entries=False, names="abc")


def test_when_they_rest_they_are_waited_for_one_by_one_again():
    async def scene(bookie, tail, told):
        await write_quickly(bookie, tail, 40)
        assert bookie.batches
        await asyncio.wait_for(until(lambda: not tail._idle_probe.flows(asyncio.get_running_loop().time())), DEADLINE_S)
        waited = 0
        # A poll ends now and then, and on a busy machine just as an entry comes: that one is read in another way.
        for _ in range(TRIES):
            written, before = bookie.written, bookie.batches
            await bookie.write(1)
            await until(lambda: tail.lac == bookie.lac)
            came = written - 1 in [entry_id for _, entries in told for entry_id in entries]
            waited += came and bookie.batches == before
            if waited == WAITED:
                return
        pytest.fail(f"{waited} of {TRIES} entries came with the reply to a poll")

    follow(scene)


@pytest.mark.parametrize("batches", [True, False])
def test_a_bookie_that_does_not_know_batches_is_polled(batches):
    async def scene(bookie, tail, told):
        await write_quickly(bookie, tail, 60)
        assert bool(bookie.batches) is batches
        assert told[-1][0] == bookie.lac

    follow(scene, batches=batches)
