"""A chunked message whose first chunk was trimmed: before the query began it is left out, later it is lost data."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest
from readonly_engine.bookkeeper.errors import NoSuchLedgerError
from readonly_engine.topic.position import EARLIEST, Position
from readonly_spark.errors import DataLossError
from readonly_spark.options import parse_options
from readonly_spark.plan.planner import Planner
from readonly_spark.plan.topic_state import ReadableLedger, TopicState
from readonly_spark.read.task_reader import _ChunkSearch, _report
from readonly_spark.rows.chunks import ChunkedMessages
from readonly_spark.rows.columns import MessageColumns
from readonly_spark.rows.decode import DecodeContext, decode_entries
from readonly_spark.task import LedgerLocation, TaskRange

from tests.unit.spark.stored import entry, metadata

TOPIC = "persistent://a/b/c"
OPTIONS = parse_options({"metadataStoreUrl": "zk:h:1", "topic": "a"}, streaming=True)


class Catalog:
    transactions = SimpleNamespace(scanned=lambda _: None)

    async def locations(self, ledgers):
        return {one.ledger_id: LedgerLocation(one.ledger_id, one.last, None) for one in ledgers}

    async def addresses(self, _):
        return {}

    async def value_schemas(self, _):
        return {}


def planned(start: Position, following: dict[str, int] | None) -> TaskRange:
    """The range of ledger 7, after ledger 6 was trimmed or never existed."""
    states = {TOPIC: TopicState(TOPIC, (ReadableLedger(7, 9, 1000), ReadableLedger(8, 9, 1000)))}
    starts = {} if start == EARLIEST else {TOPIC: start}
    plans = asyncio.run(Planner(Catalog(), OPTIONS).tasks(states, starts, {TOPIC: Position(8, 5)}, following))
    return plans[0].ranges[0]


@pytest.mark.parametrize(
    ("start", "following", "resumed"),
    [
        (EARLIEST, {}, False),  # a topic that is new to the stream
        (Position(7, 0), {}, False),  # a stream that begins with the first entry
        (Position(6, 10), {TOPIC: 7}, True),  # ledger 6 was read to its end and trimmed
        (Position(7, 3), {}, True),
        (Position(7, 3), None, False),  # a batch query
    ],
)
def test_a_plan_knows_whether_chunks_may_have_been_trimmed_since_the_query_began(start, following, resumed):
    assert planned(start, following).resumed is resumed


class Empty:
    """Bookies: nothing is before the range."""

    def read(self, *_):
        return iter(())


class Gone:
    """Bookies: the ledger before was trimmed after the plan."""

    def read(self, *_):
        raise NoSuchLedgerError("gone")
        yield


@pytest.mark.parametrize("source", [Empty(), Gone()])
@pytest.mark.parametrize("resumed", [True, False])
def test_a_message_without_its_first_chunk_is_lost_data_only_if_it_may_have_been_trimmed_meanwhile(resumed, source):
    found = replace(planned(Position(7, 0), {}), resumed=resumed, earlier=(LedgerLocation(6, 9, None),))
    chunked = ChunkedMessages(_ChunkSearch(source, found))
    last = metadata(uuid="u", chunk_id=1, num_chunks_from_msg=2, total_chunk_msg_size=10)
    columns = MessageColumns(TOPIC, -1, ["value"], None, keyed=False)
    decode_entries([entry(3, last, b"12345")], 0, DecodeContext(chunked), columns.rows, 1 << 20)
    assert columns.rows.count == 0
    _report(chunked, TOPIC, fail=False)
    if not resumed:
        _report(chunked, TOPIC, fail=True)
        return
    with pytest.raises(DataLossError, match=r"messages that end at 7:3 were trimmed, or are more than"):
        _report(chunked, TOPIC, fail=True)
