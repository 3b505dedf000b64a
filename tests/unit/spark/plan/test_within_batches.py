"""A query that starts or ends at a message within a batch: of that batch it has the messages from there on, or up to there."""

import asyncio
import json

import pyarrow as pa
import pytest
from readonly_engine.wire.message_pb2 import EncryptionKeys
from readonly_spark import stream
from readonly_spark.message_ids import parse_batch_index
from readonly_spark.options import parse_options
from readonly_spark.plan.admission import Limits
from readonly_spark.plan.planner import Planner
from readonly_spark.plan.topic_state import ReadableLedger, TopicState
from readonly_spark.read import task_reader
from readonly_spark.read.task_reader import read_task
from readonly_spark.stream import StreamPlanner

from tests.unit.spark.plan.test_trimmed_chunks import Catalog
from tests.unit.spark.stored import batch, entry, metadata

TOPIC = "persistent://public/default/t"
LEDGER = 7
BATCH = tuple(({}, bytes([letter])) for letter in b"abcd")
KEYS = [EncryptionKeys(key="k", value=b"v")]
ENTRIES = [
    batch(0, *BATCH),
    entry(1, metadata(), b"e"),
    batch(2, ({}, b"f"), ({"compacted_out": True}, b"-"), ({}, b"g"), ({}, b"h")),
    entry(3, metadata(encryption_keys=KEYS, num_messages_in_batch=2), b"x"),
    batch(4, ({}, b"i"), ({}, b"j")),
]
"""Of ledger 7: batches, a single message, and an encrypted batch, which nobody can open."""

STATES = {TOPIC: TopicState(TOPIC, (ReadableLedger(LEDGER, len(ENTRIES) - 1, 100),))}


@pytest.fixture(params=[False, True], ids=["large tasks", "small tasks"])
def stored(request, monkeypatch):
    """The ledger without bookies, read by one task, or by one for each entry."""

    class Stored:
        def __init__(self, _):
            pass

        def read(self, _topic, _ledger, first, last, _bytes):
            yield ENTRIES[first : last + 1]

        def close(self):
            pass

    monkeypatch.setattr(task_reader, "EntrySource", Stored)
    return {"minPartitions": str(len(ENTRIES))} if request.param else {}


def options(streaming=False, **given):
    return parse_options({"metadataStoreUrl": "zk:h:1", "topic": "t", **given}, streaming=streaming)


def rows(plans):
    schema = pa.schema([("value", pa.binary())])
    return b"".join(value for plan in plans for part in read_task(plan, schema) for value in part["value"].to_pylist())


def places(**where):
    return {name: json.dumps({"t": place}) for name, place in where.items()}


@pytest.mark.parametrize(
    ("start", "end", "found"),
    [
        ("7:0:-1:0", None, b"abcdefghxij"),
        ("7:0:-1:1", None, b"bcdefghxij"),
        ("7:0:-1:3", None, b"defghxij"),
        ("7:0:-1:4", None, b"efghxij"),
        ("7:1:-1:1", None, b"efghxij"),  # a single message is read
        ("7:2:-1:1", None, b"ghxij"),
        ("7:3:-1:1", None, b"xij"),
        ("7:4:-1:1", None, b"j"),
        ("7:2", "7:2:-1:0", b""),
        ("7:2", "7:2:-1:1", b"f"),
        ("7:1:-1", "7:2:-1:3", b"efg"),
        ("7:1", "7:2:-1:9", b"efgh"),
        ("7:0:-1:1", "7:0:-1:3", b"bc"),
        ("7:0:-1:3", "7:0:-1:1", b""),
        ("7:0:-1:2", "7:4:-1:1", b"cdefghxi"),
        ("7:4", "7:9:-1:1", b"ij"),  # an entry that does not exist yet
    ],
)
async def test_a_batch_is_read_in_part(stored, start, end, found):
    given = places(startingOffsets=start, **({} if end is None else {"endingOffsets": end}))
    planner = Planner(Catalog(), options(**given, **stored))

    assert (
        rows(await planner.tasks(STATES, await planner.starts(STATES, "earliest"), await planner.ends(STATES))) == found
    )


class Growing(Catalog):
    """A cluster with one topic, and so many entries that can be read."""

    entries = len(ENTRIES)

    @property
    def selection(self):
        return self

    async def cluster_id(self):
        return "c"

    async def topics(self, _):
        return [TOPIC]

    async def reachable_states(self, names, *, sample):
        del sample
        ledger = ReadableLedger(LEDGER, self.entries - 1, 100, closed=False)
        return {name: TopicState(name, (ledger,)) for name in names}, {}


class Connection:
    """Stand in for the connection to a cluster."""

    catalog = Growing()

    def __init__(self, given):
        self.planner = Planner(self.catalog, given)

    def call(self, coroutine, **_):
        return asyncio.run(coroutine())


def test_a_stream_starts_within_a_batch_once(stored, monkeypatch):
    """Its first micro-batch that reads the batch does, also if Spark plans it again; an option given later does nothing."""
    monkeypatch.setattr(stream, "Connection", Connection)
    monkeypatch.setattr(Growing, "entries", 2)
    where = places(startingOffsets="7:2:-1:1")
    planner = StreamPlanner(options(streaming=True, **where, **stored))
    start = planner.start()
    assert start["t"] == {TOPIC: "7:2:-1:1"}
    assert planner.end(start, Limits()) == start, "the batch is not there yet"
    monkeypatch.setattr(Growing, "entries", 4)
    end = planner.end(start, Limits())
    assert end["t"] == {TOPIC: "7:4"}
    assert rows(planner.tasks(start, end)) == b"ghx"
    again = StreamPlanner(options(streaming=True, **places(startingOffsets="7:4:-1:1"), **stored))
    assert rows(again.tasks(start, end)) == b"ghx"
    monkeypatch.setattr(Growing, "entries", len(ENTRIES))
    assert rows(again.tasks(end, again.end(end, Limits()))) == b"ij"


@pytest.mark.parametrize(("text", "index"), [("7:3", 0), ("7:3:-1", 0), ("7:3:-1:-1", 0), ("7:3:0:12", 12)])
def test_the_batch_index_of_a_message_id(text, index):
    assert parse_batch_index(text) == index
