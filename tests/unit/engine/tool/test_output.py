import base64
import io
import json

from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.tool.messages import Item, Unpacker
from readonly_engine.tool.output import as_json, as_raw, as_text
from readonly_engine.tool.progress import Progress
from readonly_engine.topic.entries import TopicEntry
from readonly_engine.topic.position import Position
from readonly_engine.wire.batch import Message, StoredEntry
from readonly_engine.wire.entry import Entry
from readonly_engine.wire.message_pb2 import TXN_ABORT, ZSTD, MessageMetadata, SingleMessageMetadata

METADATA = MessageMetadata(publish_time=1_700_000_000_123, producer_name="p", sequence_id=4)
POSITION = Position(12, 3)


def item(message, note="", metadata=METADATA, partition=-1, **stored):
    return Item(POSITION, partition, StoredEntry(metadata, b"", **stored), message, note)


def entry(metadata, body=b""):
    head = metadata.SerializeToString()
    return TopicEntry(Entry(12, 3, 2, 0, len(head).to_bytes(4, "big") + head + body))


def items(made, *, join=True):
    return list(Unpacker(-1, join=join).items(made))


def test_a_message_as_text():
    message = Message(b"hello", batch_index=2, key=b"k", properties=(("colour", "light\nblue"),))
    assert as_text(item(message, partition=5)) == (
        rb"12:3:2 p5 2023-11-14T22:13:20.123Z key=k colour=light\nblue hello" + b"\n"
    )
    assert as_text(item(Message(None))).endswith(b" (no value)\n")
    assert as_text(item(Message(b"x"), note="3 chunks")).endswith(b" (3 chunks) x\n")
    assert as_text(Item(POSITION, -1, note="damaged: it")) == b"12:3 (damaged: it)\n"


def test_bytes_that_are_no_text_are_cut_short_for_people_only():
    value = b"\xff" * 100
    assert as_text(item(Message(value))).endswith(b" 0x" + b"ff" * 64 + b"... (100 bytes)\n")
    assert as_raw(item(Message(value))) == value
    assert base64.b64decode(json.loads(as_json(item(Message(value))))["value_base64"]) == value


def test_a_message_as_json():
    metadata = MessageMetadata(
        publish_time=1, producer_name="p", compression=ZSTD, schema_version=b"\0\1", deliver_at_time=9,
        txnid_most_bits=1, txnid_least_bits=2, replicated_from="eu",
    )  # fmt: skip
    message = Message(
        b"v", batch_index=0, key=b"\xff", ordering_key=b"o", properties=(("a", "b"),), event_time=7, sequence_id=8
    )
    assert json.loads(as_json(item(message, metadata=metadata, partition=1, broker_timestamp=5, index=6))) == {
        "id": "12:3:0", "ledger": 12, "entry": 3, "partition": 1, "publish_time": 1, "producer": "p", "broker_time": 5,
        "index": 6, "compression": "ZSTD", "schema_version": "0001", "deliver_at": 9, "transaction": "1:2",
        "replicated_from": "eu", "batch_index": 0, "key_base64": "/w==", "ordering_key": "o", "properties": {"a": "b"},
        "sequence_id": 8, "event_time": 7, "value": "v",
    }  # fmt: skip
    assert json.loads(as_json(item(Message(None))))["value"] is None


def test_what_is_no_message_has_no_raw_bytes():
    assert as_raw(item(None, note="marker")) == b""
    assert as_raw(item(Message(None))) == b""


@given(st.binary(max_size=80), st.binary(max_size=20), st.lists(st.tuples(st.text(), st.text()), max_size=3))
def test_whatever_a_message_holds_is_one_line(value, key, properties):
    properties = tuple(
        (a.encode(errors="replace").decode(), b.encode(errors="replace").decode()) for a, b in properties
    )
    made = item(Message(value, key=key, properties=properties))
    for encoded in (as_text(made), as_json(made)):
        assert encoded.count(b"\n") == 1
        assert encoded.endswith(b"\n")
    assert all(one.isprintable() for one in as_text(made).decode().rstrip("\n"))


def test_what_an_entry_can_be():
    (marker,) = items(entry(MessageMetadata(marker_type=TXN_ABORT)))
    assert (marker.message, marker.note) == (None, "marker TXN_ABORT")
    secret = MessageMetadata(num_messages_in_batch=3)
    secret.encryption_keys.add(key="shop")
    (encrypted,) = items(entry(secret, b"12345"))
    assert encrypted.note == "encrypted for shop: 3 messages, 5 bytes"
    (damaged,) = items(TopicEntry(Entry(12, 3, 2, 0, b"\xff\xff\xff\xff\xff")))
    assert damaged.note.startswith("damaged: ")
    assert damaged.stored is None
    head = SingleMessageMetadata(payload_size=1).SerializeToString()
    body = len(head).to_bytes(4, "big") + head + b"x"
    assert [one.id for one in items(entry(MessageMetadata(num_messages_in_batch=1), body))] == ["12:3:0"]


def test_a_batch_that_is_damaged_half_way_shows_its_damage():
    found = items(entry(MessageMetadata(num_messages_in_batch=2), b"\0\0\0\0"))
    assert found[-1].note.startswith("damaged: a batch of 2 messages")
    assert found[-1].stored is not None


def test_chunks_joined_or_each():
    parts = [
        entry(
            MessageMetadata(uuid="u", chunk_id=n, num_chunks_from_msg=2, total_chunk_msg_size=4, uncompressed_size=4),
            b"ab",
        )
        for n in range(2)
    ]
    joiner = Unpacker(-1, join=True)
    assert [one.message.value for part in parts for one in joiner.items(part)] == [b"abab"]
    assert [items(part, join=False)[0].note for part in parts] == [
        "chunk 1 of 2 of u: 2 bytes",
        "chunk 2 of 2 of u: 2 bytes",
    ]


def test_progress(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("readonly_engine.tool.progress.time.monotonic", lambda: now[0])
    screen = io.StringIO()
    progress = Progress(screen, 4, shown=True)
    progress.add(1_000_000)
    assert screen.getvalue() == "", "a short read says nothing"
    now[0] = 2.0
    progress.add(1_000_000)
    assert screen.getvalue() == "\r\x1b[K2 entries of 4 (50%), 2.0 MB, 1.0 MB/s"
    progress.add(1_000_000)
    assert screen.getvalue().count("entries") == 1
    progress.end()
    assert screen.getvalue().endswith("\r\x1b[K")
    unknown = Progress(screen, 0, shown=False)
    unknown.add(10)
    assert unknown.line(1).startswith("1 entries, ")
