"""Starts and ends of a query by the number of a message, and starts by a time after which nothing was published."""

import asyncio
import json

import pytest
from readonly_engine.topic.entries import TopicEntry
from readonly_engine.topic.position import Position
from readonly_engine.wire.entry import Entry
from readonly_engine.wire.message_pb2 import BrokerEntryMetadata, MessageMetadata
from readonly_spark.errors import DataLossError, SourceError
from readonly_spark.options import OptionError, parse_options
from readonly_spark.plan.index_start import IndexStart, position_of_index
from readonly_spark.plan.planner import Planner
from readonly_spark.plan.topic_state import ReadableLedger, TopicState

from tests.unit.engine.topic.test_log import played_log

TOPIC = "persistent://public/default/t"


def stored(ledger_id, entry_id, index, messages=1):
    """An entry whose last message has a number; None for a broker that stores none."""
    payload = MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, num_messages_in_batch=messages)
    head = payload.SerializeToString()
    front = b"" if index is None else BrokerEntryMetadata(index=index).SerializeToString()
    prefix = b"" if index is None else b"\x0e\x02" + len(front).to_bytes(4, "big") + front
    return TopicEntry(Entry(ledger_id, entry_id, entry_id - 1, 0, prefix + len(head).to_bytes(4, "big") + head))


NUMBERED = [None, None, (0, 1), (3, 3), (4, 1)]
"""Two entries without numbers, then 0, a batch of 1 to 3, and 4."""


@pytest.mark.parametrize(
    ("entries", "number", "start", "end"),
    [
        (NUMBERED, 0, IndexStart(Position(3, 2), 0), IndexStart(Position(3, 2), 0)),
        (NUMBERED, 1, IndexStart(Position(4, 0), 1), IndexStart(Position(4, 0), 1)),
        (NUMBERED, 2, IndexStart(Position(4, 0), 1), IndexStart(Position(4, 1), 4)),  # the batch is read whole
        (NUMBERED, 4, IndexStart(Position(4, 1), 4), IndexStart(Position(4, 1), 4)),
        (NUMBERED, 5, IndexStart(Position(90, 0), None, newest=4), IndexStart(Position(90, 0), None, newest=4)),
        ([(10, 1), (12, 2)], 3, IndexStart(Position(3, 0), 10), IndexStart(Position(3, 0), 10)),  # trimmed
        ([None, None], 0, IndexStart(Position(90, 0), None), IndexStart(Position(90, 0), None)),
        ([], 0, IndexStart(Position(90, 0), None, empty=True), IndexStart(Position(90, 0), None, empty=True)),
    ],
)
async def test_the_entry_of_a_message_is_found_by_its_number(entries, number, start, end):
    """Ledger 3 has three entries at most, and ledger 4 the others; ledger 90 is open and empty."""
    async with played_log() as stage:
        first, second = entries[:3], entries[3:]
        stage.topic((3, len(first)), (4, len(second)), 90)
        for ledger_id, kept in ((3, first), (4, second)):
            for entry_id, one in enumerate(kept):
                stage.cache.put(stored(ledger_id, entry_id, *(one or (None,))))
        assert await position_of_index(stage.log, number) == start
        assert await position_of_index(stage.log, number, end=True) == end


class Catalog:
    def __init__(self, found=None, at=None):
        self.found, self.at = found, at

    async def positions_of_indexes(self, numbers, *, end=False):
        return dict.fromkeys(numbers, self.found)

    async def positions_at(self, names, _):
        return dict.fromkeys(names, self.at)


STATES = {TOPIC: TopicState(TOPIC, (ReadableLedger(7, 9, 100, closed=False),))}


def starts(catalog, **given):
    options = parse_options({"metadataStoreUrl": "zk:h:1", "topic": "t", **given}, streaming=True)
    return asyncio.run(Planner(catalog, options).starts(STATES, "latest"))[TOPIC]


@pytest.mark.parametrize(
    ("found", "given", "result"),
    [
        (IndexStart(Position(7, 3), 5), {}, Position(7, 3)),
        (IndexStart(Position(7, 10), None, newest=4), {}, Position(7, 10)),
        (IndexStart(Position(7, 12), 5), {}, Position(7, 10)),  # an open transaction ends before
        (IndexStart(Position(7, 0), 6), {"failOnDataLoss": "false"}, Position(7, 0)),
        (IndexStart(Position(7, 0), 6), {}, "messages 5 to 5 are lost; set failOnDataLoss=false"),
        (IndexStart(Position(7, 10), None, newest=3), {}, "has no message 5 yet; its next one has the number 4"),
        (IndexStart(Position(7, 10), None), {}, "does not store the numbers of its messages"),
        (IndexStart(Position(7, 0), None, empty=True), {}, "has no message, so message 5 cannot be found"),
        (IndexStart(Position(7, 0), None, empty=True), {"startingIndex": "0"}, Position(7, 0)),
        (IndexStart(Position(7, 3), 5), {"startingIndex": '{"t": 5}'}, Position(7, 3)),
        (
            IndexStart(Position(7, 3), 5),
            {"startingIndex": '{"u": 5}'},
            "startingIndex names persistent://public/default/u",
        ),
    ],
)
def test_a_number_that_is_not_there_is_an_error(found, given, result):
    given = {"startingIndex": "5", **given}
    if isinstance(result, Position):
        assert starts(Catalog(found), **given) == result
        return
    with pytest.raises((SourceError, DataLossError), match=result):
        starts(Catalog(found), **given)


@pytest.mark.parametrize(
    ("found", "given", "result"),
    [
        (IndexStart(Position(7, 3), 5), {}, Position(7, 3)),
        (IndexStart(Position(7, 3), 6), {}, Position(7, 3)),  # message 5 is amid a batch, or was trimmed
        (IndexStart(Position(7, 10), None, newest=4), {}, Position(7, 10)),
        (IndexStart(Position(7, 12), 5), {}, Position(7, 10)),  # an open transaction ends before
        (
            IndexStart(Position(7, 10), None, newest=3),
            {},
            "endingIndex: .* has no message 5 yet; its next one has the number 4",
        ),
        (
            IndexStart(Position(7, 10), None),
            {},
            "endingIndex: .* numbers of its messages.* use endingOffsets or endingTimestamp",
        ),
        (IndexStart(Position(7, 0), None, empty=True), {}, "has no message, so message 5 cannot be found"),
        (IndexStart(Position(7, 0), None, empty=True), {"endingIndex": "0"}, Position(7, 0)),
        (IndexStart(Position(7, 3), 5), {"endingIndex": '{"t": 5}'}, Position(7, 3)),
        (IndexStart(Position(7, 3), 5), {"endingIndex": '{"u": 5}'}, "endingIndex names persistent://public/default/u"),
    ],
)
def test_an_end_is_checked_as_a_start_is(found, given, result):
    options = parse_options({"metadataStoreUrl": "zk:h:1", "topic": "t", "endingIndex": "5", **given}, streaming=False)
    planner = Planner(Catalog(found), options)
    if isinstance(result, Position):
        assert asyncio.run(planner.ends(STATES)) == {TOPIC: result}
        return
    with pytest.raises(SourceError, match=result):
        asyncio.run(planner.ends(STATES))


@pytest.mark.parametrize("given", [{"startingTimestamp": "5"}, {"startingOffsets": '{"t": "2026-11-21T12:00:00Z"}'}])
@pytest.mark.parametrize("strategy", ["", "latest", "error"])
@pytest.mark.parametrize("at", [Position(7, 3), Position(7, 10)])
def test_a_time_after_the_last_message_is_the_end_or_an_error(given, strategy, at):
    chosen = {**given, **({"startingTimestampStrategy": strategy} if strategy else {})}
    if strategy == "error" and at == Position(7, 10):
        with pytest.raises(
            SourceError, match=f"{next(iter(given))}: {TOPIC} has no message at this publish time or later"
        ):
            starts(Catalog(at=at), **chosen)
        return
    assert starts(Catalog(at=at), **chosen) == at


def test_other_starts_need_no_later_message():
    assert starts(Catalog(), startingOffsets="latest", startingTimestampStrategy="error") == Position(7, 10)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"startingIndex": "-1"}, "startingIndex: '-1' must be the number of a message, 0 or more"),
        ({"startingIndex": "{}"}, "startingIndex: '{}' must be the number of a message"),
        ({"startingIndex": '{"t": "5"}'}, "startingIndex: persistent://public/default/t: '5' must be the number"),
        ({"startingIndex": '{"t": true}'}, "True must be the number"),
        ({"startingIndex": json.dumps({"t": 10**18})}, "must be the number"),
        ({"startingIndex": '{"t": 1, "public/default/t": 2}'}, "persistent://public/default/t is named twice"),
        ({"startingIndex": "5", "startingTimestamp": "5"}, "startingTimestamp and startingIndex contradict each other"),
        ({"endingIndex": "5", "endingTimestamp": "5"}, "endingTimestamp and endingIndex contradict each other"),
        ({"endingIndex": "-1"}, "endingIndex: '-1' must be the number of a message, 0 or more"),
        ({"endingIndex": "4", "startingIndex": "5"}, "endingIndex is before startingIndex"),
        ({"startingTimestampStrategy": "earliest"}, "startingTimestampStrategy: 'earliest' must be latest or error"),
        ({"fieldColumns": "true"}, "fieldColumns requires valueSchema=auto, or a schema"),
    ],
)
def test_malformed_starts_name_their_option(given, said):
    with pytest.raises(OptionError) as caught:
        parse_options({"metadataStoreUrl": "zk:h:1", "topic": "t", **given}, streaming=None)
    assert said in str(caught.value)


def test_the_largest_number_is_read():
    given = dict.fromkeys(("startingIndex", "endingIndex"), str(10**18 - 1))
    options = parse_options({"metadataStoreUrl": "zk:h:1", "topic": "t", **given}, streaming=None)
    assert options.starting_index == options.ending_index == 10**18 - 1


def test_a_stream_has_no_end():
    with pytest.raises(OptionError, match="endingIndex is for batch queries, not for a stream"):
        parse_options({"metadataStoreUrl": "zk:h:1", "topic": "t", "endingIndex": "5"}, streaming=True)
