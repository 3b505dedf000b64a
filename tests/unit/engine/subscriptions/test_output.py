import json

from readonly_engine.broker.cursors.local_requests import LocalRequest, marked
from readonly_engine.broker.cursors.topic_cursors import TopicCursors
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.subscriptions.backlog import TopicEntries
from readonly_engine.subscriptions.output import fields_of, list_as_json, list_as_text, one_as_json, one_as_text
from readonly_engine.topic.position import Position

TOPIC = parse_topic_name("orders")
ENTRIES = TopicEntries([(4, 0)], Position(4, 29))
"""30 entries."""
PARTS = {TOPIC.at(index): ENTRIES for index in range(2)}
CREATED_MS = 1_800_000_000_000


def cursor(name="s", *, ranges=(), batches=(), properties=()):
    cursors = TopicCursors(str(TOPIC))
    made = cursors.create(name, Position(4, -1), CREATED_MS, properties)
    cursors.reset(made, Position(4, -1), batches, ranges)
    return made


def spans(*bounds):
    return [(Position(4, lower), Position(4, upper)) for lower, upper in bounds]


def test_names_of_pulsar():
    properties = marked([("team", "blue")], LocalRequest.EXPORT)
    found = fields_of(
        cursor(ranges=spans((0, 1), (3, 9)), batches=[(Position(4, 11), 0b1101)], properties=properties), ENTRIES
    )
    assert found == {
        "msgBacklog": 23,
        "markDeletePosition": "4:-1",
        "individuallyDeletedMessages": "[(4:0..4:1],(4:3..4:9]]",
        "totalNonContiguousDeletedMessagesRange": 2,
        "subscriptionProperties": {"team": "blue"},
        "createdTimestamp": "2027-01-15T08:00:00.000Z",
        "unackedBatchIndexes": {"4:11": [0, 2, 3]},
        "migration": "export",
    }
    plain = fields_of(cursor(), ENTRIES)
    assert plain["individuallyDeletedMessages"] == "[]"
    assert not {"unackedBatchIndexes", "migration"} & set(plain)


def test_a_list_as_json():
    one = {TOPIC: [cursor('a"b'), cursor("ü")]}
    assert json.loads("".join(list_as_json(one, {TOPIC: ENTRIES}))) == {
        "topic": str(TOPIC),
        "subscriptions": {'a"b': fields_of(cursor(), ENTRIES), "ü": fields_of(cursor(), ENTRIES)},
    }
    assert json.loads("".join(list_as_json({TOPIC: []}, {TOPIC: ENTRIES}))) == {
        "topic": str(TOPIC),
        "subscriptions": {},
    }
    two = json.loads("".join(list_as_json({TOPIC.at(0): [cursor()], TOPIC.at(1): []}, PARTS)))
    assert [(part["topic"], list(part["subscriptions"])) for part in two] == [
        (str(TOPIC.at(0)), ["s"]),
        (str(TOPIC.at(1)), []),
    ]


def test_a_list_as_text():
    listed = {TOPIC.at(0): [cursor("a\nb", ranges=spans((0, 1)))], TOPIC.at(1): []}
    lines = "".join(list_as_text(listed, PARTS)).splitlines()
    assert lines == [
        str(TOPIC.at(0)),
        "  SUBSCRIPTION  MARK-DELETE  BACKLOG  ACKED RANGES  BATCHES IN PART  CREATED                   NOTE",
        r"  a\nb          4:-1         29       1             0                2027-01-15T08:00:00.000Z",
        str(TOPIC.at(1)),
        "  no local subscription",
    ]


def test_one_subscription():
    ranges = spans(*((number, number + 1) for number in range(0, 14, 2)))
    properties = marked([("k", "\x1b[31m")], LocalRequest.IMPORT)
    found = {TOPIC: cursor(ranges=ranges, batches=[(Position(4, 20), 0b101)], properties=properties)}
    assert json.loads(one_as_json(found, {TOPIC: ENTRIES})) == {
        "topic": str(TOPIC),
        "subscription": "s",
        **fields_of(found[TOPIC], ENTRIES),
    }
    assert len(json.loads(one_as_json({TOPIC.at(0): cursor(), TOPIC.at(1): cursor()}, PARTS))) == 2
    assert "".join(one_as_text(found, {TOPIC: ENTRIES})).splitlines() == [
        str(TOPIC),
        "  subscription   s",
        "  mark-delete    4:-1",
        "  backlog        23",
        "  acked ranges   (4:0..4:1] (4:2..4:3] (4:4..4:5] (4:6..4:7] (4:8..4:9] and 2 more",
        "  created        2027-01-15T08:00:00.000Z",
        r"  property       k=\x1b[31m",
        "  batch in part  4:20, unacked 0 2",
        "  migration      import not finished: run it again",
    ]
