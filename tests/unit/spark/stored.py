"""Entries of topics, put together as producers and brokers do."""

import google_crc32c
from readonly_engine.wire.entry import Entry
from readonly_engine.wire.message_pb2 import MessageMetadata, SingleMessageMetadata

LEDGER = 7


def metadata(**fields):
    return MessageMetadata(**{"producer_name": "p", "sequence_id": 0, "publish_time": 1000, **fields})


def payload(meta, body):
    head = meta.SerializeToString()
    rest = len(head).to_bytes(4, "big") + head + body
    return b"\x0e\x01" + google_crc32c.value(rest).to_bytes(4, "big") + rest


def entry(entry_id, meta, body, ledger_id=LEDGER):
    return Entry(ledger_id, entry_id, entry_id - 1, 0, payload(meta, body))


def batch_body(*singles):
    out = b""
    for fields, value in singles:
        head = SingleMessageMetadata(**fields, payload_size=len(value)).SerializeToString()
        out += len(head).to_bytes(4, "big") + head + value
    return out


def batch(entry_id, *singles, **fields):
    """An entry with a batch: fields and value of each message."""
    body = batch_body(*singles)
    return entry(entry_id, metadata(num_messages_in_batch=len(singles), **fields), body)
