"""The parsers that take bytes from outside, each with sound inputs to start from and the errors that it may raise."""

from __future__ import annotations

import contextlib
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from readonly_engine.bookkeeper.session import BookieSession
from readonly_engine.broker.pool.bindings import BindingsError, load_bindings, parse_pattern
from readonly_engine.config.option import ConfigError
from readonly_engine.config.reader import make_config, read_config_file
from readonly_engine.metadata.errors import TopicNameError
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.owner.admin import parse_ranges
from readonly_engine.owner.session import OwnerSession
from readonly_engine.tool.errors import ToolError
from readonly_engine.tool.start import parse_start
from readonly_engine.wire.acks import decode_plain_ack, pure_decode_plain_ack
from readonly_engine.wire.batch import decode_stored_entry, unpack
from readonly_engine.wire.bit_set import bits_of, words_of
from readonly_engine.wire.bookie import decode_reply
from readonly_engine.wire.bookie_v2 import decode_batch, decode_batch_header
from readonly_engine.wire.chunks import ChunkJoiner
from readonly_engine.wire.commands import body_of, command_name, decode_command, encode_command, has_request_id
from readonly_engine.wire.compacted import decode_compacted
from readonly_engine.wire.compression import decompress
from readonly_engine.wire.cursors import decode_cursor, decode_cursor_entry
from readonly_engine.wire.digest import digest_for
from readonly_engine.wire.entry import decode_entry, decode_lac
from readonly_engine.wire.errors import WireError
from readonly_engine.wire.framing import FrameSplitter
from readonly_engine.wire.ledgers import decode_bookie_address, decode_ledger_metadata, decode_managed_ledger
from readonly_engine.wire.message import decode_metadata, decode_stored
from readonly_engine.wire.message_pb2 import MessageMetadata
from readonly_engine.wire.pending_ack import decode_txn_acks
from readonly_engine.wire.pending_ack_pb2 import AckedEntry, Batch, Operation, Record
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandAck, MessageIdData
from readonly_engine.wire.sequence_file import decode_map_index
from readonly_engine.wire.sticky_key import key_hash, sticky_key

from longtests.fuzz import offloaded

if TYPE_CHECKING:
    from collections.abc import Callable

_GOLDEN: Final = Path(__file__).resolve().parents[3] / "tests" / "unit" / "engine" / "golden"
_SMALL_LIMIT: Final = 1 << 20
"""What decompression may make of a fuzzer's input, so that a breach of the limit is seen long before memory ends."""


@dataclass(frozen=True, slots=True)
class Target:
    """A parser.

    Attributes:
        name: for the command line.
        parse: takes any bytes.
        errors: what it may raise; anything else is a defect.
        seeds: sound inputs, which are then damaged.
    """

    name: str
    parse: Callable[[bytes], object]
    errors: tuple[type[Exception], ...]
    seeds: tuple[bytes, ...]


def _golden(*patterns: str) -> tuple[bytes, ...]:
    """Bytes of a real cluster."""
    found = []
    for pattern in patterns:
        for path in sorted(_GOLDEN.glob(f"{pattern}.txt")):
            lines = path.read_text(encoding="ascii").splitlines()
            found.append(bytes.fromhex("".join(line for line in lines if not line.startswith("#"))))
    return tuple(found)


def _framing(data: bytes) -> None:
    splitter = FrameSplitter(_SMALL_LIMIT)
    third = len(data) // 3
    for part in (data[:third], data[third : 2 * third], data[2 * third :]):
        splitter.receive_data(part)


def _command(data: bytes) -> None:
    command, end = decode_command(data)
    command_name(command)
    has_request_id(command)
    body_of(command)
    if data[end:]:
        decode_metadata(data[end:])


def _owner_session(data: bytes) -> None:
    session = OwnerSession()
    session.receive_data(data)
    session.data_to_send()


def _bookie_session(data: bytes) -> None:
    session = BookieSession()
    for number in range(4):
        session.read_entry(1, number, 1.0)
    session.receive_data(data)
    session.on_timer(2.0)


def _batch_reply(data: bytes) -> None:
    header = decode_batch_header(data)
    for kind in range(1, 5):
        decode_batch(data, digest_for(kind), header.ledger_id, header.first)


def _entry(data: bytes) -> None:
    ledger_id = int.from_bytes(data[:8], "big", signed=True)
    for kind in (1, 2, 4):
        with contextlib.suppress(WireError):
            decode_entry(data, digest_for(kind), ledger_id)
    decode_entry(data, digest_for(3), ledger_id)


def _lac(data: bytes) -> None:
    ledger_id = int.from_bytes(data[:8], "big", signed=True)
    for kind in (1, 2, 4):
        with contextlib.suppress(WireError):
            decode_lac(data, digest_for(kind), ledger_id)
    decode_lac(data, digest_for(3), ledger_id)


def _ledger_metadata(data: bytes) -> None:
    metadata = decode_ledger_metadata(data)
    for entry_id in (0, 1, 1 << 40):
        metadata.ensemble_at(entry_id)
        metadata.replicas_of(entry_id)


def _messages(data: bytes) -> None:
    entry = decode_stored_entry(data)
    unpack(entry, _SMALL_LIMIT)


def _messages_without_checksum(data: bytes) -> None:
    """The same without the checksum, which keeps a fuzzer out."""
    _messages(data[6:] if data.startswith(b"\x0e\x01") else data)


def _chunks(data: bytes) -> None:
    """Entries one after the other, each behind its length in two bytes."""
    joiner = ChunkJoiner(_SMALL_LIMIT, 4)
    position = 0
    while position + 2 <= len(data):
        end = position + 2 + int.from_bytes(data[position : position + 2], "big")
        joiner.add(decode_stored_entry(data[position + 2 : end]))
        position = end


def _chunk_seed() -> bytes:
    """Two chunks of one message, and one of another between them."""
    parts = []
    for uuid, number, body in (("a", 0, b"first "), ("b", 0, b"other "), ("a", 1, b"second")):
        metadata = MessageMetadata(
            producer_name="p",
            sequence_id=0,
            publish_time=1,
            uuid=uuid,
            chunk_id=number,
            num_chunks_from_msg=2,
            total_chunk_msg_size=12,
            uncompressed_size=12,
        ).SerializeToString()
        entry = len(metadata).to_bytes(4, "big") + metadata + body
        parts.append(len(entry).to_bytes(2, "big") + entry)
    return b"".join(parts)


def _compacted(data: bytes) -> None:
    """An entry of a compacted ledger, and what compaction has left in it."""
    _, payload = decode_compacted(data)
    decode_stored(payload)


def _sticky_key(data: bytes) -> None:
    key_hash(sticky_key(decode_metadata(len(data).to_bytes(4, "big") + data)))


def _sticky_key_seeds() -> tuple[bytes, ...]:
    """Metadata with each kind of key."""
    fields: tuple[dict[str, Any], ...] = (
        {"ordering_key": b"order"},
        {"partition_key": "key"},
        {"partition_key": "a2V5", "partition_key_b64_encoded": True},
        {"partition_key": "no base64!", "partition_key_b64_encoded": True},
        {},
    )
    common: dict[str, Any] = {"producer_name": "p", "sequence_id": 7, "publish_time": 1}
    return tuple(MessageMetadata(**{**common, **one}).SerializeToString() for one in fields)


def _bit_set(data: bytes) -> None:
    """Words of 64 bits: what comes back is what went in, but for the empty words at the end."""
    words = [int.from_bytes(data[i : i + 8], "little", signed=True) for i in range(0, len(data), 8)]
    while words and not words[-1]:
        words.pop()
    if words_of(bits_of(words)) != words:
        raise AssertionError("another set of bits")


def _txn_ack_seeds() -> tuple[bytes, ...]:
    """A record by itself, and a batch of two."""
    acked = AckedEntry(ledger_id=4, entry_id=7, unacked_words=[3, -1])
    records = [
        Record(operation=Operation.ACK, txnid_most_bits=1, txnid_least_bits=2, ack_type=0, acked=[acked]),
        Record(operation=Operation.COMMIT, txnid_most_bits=1, txnid_least_bits=2, ack_type=1),
    ]
    return records[0].SerializeToString(), b"\x0e\x01\0\1" + Batch(records=records).SerializeToString()


def _plain_ack(data: bytes) -> None:
    """In C, where that is built, and in Python: the same, whatever comes."""
    if decode_plain_ack(data) != pure_decode_plain_ack(data):
        raise AssertionError("C and Python do not agree")


def _plain_ack_seeds() -> tuple[bytes, ...]:
    ids = [MessageIdData(ledger_id=ledger, entry_id=entry) for ledger, entry in ((3, 4), (3, 300), (2**40, 2**33))]
    acks = [CommandAck(consumer_id=7, ack_type=CommandAck.Individual, message_id=ids[:count]) for count in (1, 3)]
    return tuple(encode_command(BaseCommand(type=BaseCommand.ACK, ack=ack))[4:] for ack in acks)


def _decompress(data: bytes) -> None:
    """The first bytes choose codec and size."""
    decompress(data[0] % 6 if data else 0, data[4:], int.from_bytes(data[1:4], "big"), _SMALL_LIMIT)


def _file(read: Callable[[Path], object]) -> Callable[[bytes], None]:
    folder = tempfile.TemporaryDirectory()
    path = Path(folder.name) / "file.yaml"

    def parse(data: bytes, _keep: object = folder) -> None:
        path.write_bytes(data)
        read(path)

    return parse


def _text(parse: Callable[[str], object]) -> Callable[[bytes], None]:
    def read(data: bytes) -> None:
        parse(data.decode("utf-8", "replace"))

    return read


def _compressed_seeds() -> tuple[bytes, ...]:
    """Sound blocks of every codec, made by the libraries themselves."""
    import zlib  # noqa: PLC0415 - only for these seeds

    import cramjam  # noqa: PLC0415
    import lz4.block  # noqa: PLC0415
    import zstandard  # noqa: PLC0415

    plain = b"pulsar-readonly " * 40
    size = len(plain).to_bytes(3, "big")
    blocks = (
        plain,
        lz4.block.compress(plain, store_size=False),
        zlib.compress(plain),
        zstandard.ZstdCompressor().compress(plain),
        bytes(cramjam.snappy.compress_raw(plain)),
    )
    return tuple(bytes([kind]) + size + block for kind, block in enumerate(blocks))


_YAML_ERRORS: Final = (BindingsError, ConfigError)
_BINDINGS: Final = b"""revision: "7"
bindings:
  - name: team/orders
    topics: ["persistent://public/default/orders", "persistent://public/default/.*"]
"""
_CONFIG: Final = b"""metadata-store-url: zk:127.0.0.1:2181,127.0.0.2:2181/chroot
service-url: pulsar://127.0.0.1:6650
admin-url: http://127.0.0.1:8080
topics: ["persistent://public/default/.*"]
listen: 0.0.0.0:6650
cache-size: 512MiB
log-level: info
"""
_TIERED: Final = (
    _CONFIG
    + b"tiered-storage: {endpoint: http://127.0.0.1:9000, bucket: b, region: r, read-size: 1MiB, request-timeout: 5}\n"
)
_YAML_ODDITIES: Final = (
    b"revision: 2001-13-45",
    b"? [a]\n: 1",
    b"a: &a [*a]",
    b"- " * 50,
    b"{" * 200,
    b"[" * 300,
    b"!!python/none x",
)


def _targets() -> tuple[Target, ...]:
    wire = (WireError,)
    entries = _golden("bookie_read_?", "bookie_read_compacted", "bookie_read_last")
    bodies = tuple(decode_reply(entry)[1].body for entry in entries)
    payloads = tuple(body[36:] for body in bodies)
    batch_reply = b"\x02\x07\0\0" + bytes(4) + bodies[0][:8] + bytes(16) + len(bodies[0]).to_bytes(4, "big") + bodies[0]
    compacted = tuple(decode_reply(entry)[1].body[40:] for entry in _golden("bookie_read_compacted"))
    lacs = tuple(decode_reply(reply)[1].lac_body for reply in _golden("bookie_read_lac"))
    framed = tuple(frame for frame in _golden("broker_*", "client_*"))
    return (
        Target("framing", _framing, wire, framed),
        Target("commands", _command, wire, tuple(frame[4:] for frame in framed)),
        Target("owner-session", _owner_session, wire, framed),
        Target("bookie-replies", decode_reply, wire, _golden("bookie_*")),
        Target(
            "bookie-session",
            _bookie_session,
            wire,
            tuple(len(frame).to_bytes(4, "big") + frame for frame in _golden("bookie_*")),
        ),
        Target("bookie-batches", _batch_reply, wire, (batch_reply,)),
        Target("entries", _entry, wire, bodies),
        Target("explicit-lac", _lac, wire, lacs),
        Target("ledger-metadata", _ledger_metadata, wire, (*_golden("zk_ledger_*"), *_OLD_LEDGERS)),
        Target("managed-ledgers", decode_managed_ledger, wire, _golden("zk_managed_ledger*")),
        Target("cursors", decode_cursor, wire, _golden("zk_cursor_*")),
        Target("cursor-entries", decode_cursor_entry, wire, _golden("cursor_entry*")),
        Target("compacted-entries", _compacted, wire, compacted),
        Target("txn-acks", decode_txn_acks, wire, _txn_ack_seeds()),
        Target("plain-acks", _plain_ack, (), _plain_ack_seeds()),
        Target("sticky-keys", _sticky_key, wire, _sticky_key_seeds()),
        Target("bit-sets", _bit_set, (), (bytes(range(24)), bytes(8) + b"\xff" * 8, bytes(8))),
        Target("holes", _text(parse_ranges), (), (b"[(4:0..4:1],(4:5..4:9]]", b"[]")),
        Target("bookie-address", decode_bookie_address, wire, _golden("zk_bookie")),
        Target("message-metadata", decode_stored, wire, payloads),
        Target("batches", _messages, wire, payloads),
        Target("batches-unchecked", _messages_without_checksum, wire, payloads),
        Target("chunks", _chunks, wire, (_chunk_seed(),)),
        Target("compression", _decompress, wire, _compressed_seeds()),
        Target("offload-index", offloaded.read_index, wire, offloaded.index_seeds()),
        Target("offload-blocks", offloaded.read_block, wire, offloaded.block_seeds(payloads)),
        Target("offload-map-index", decode_map_index, wire, offloaded.map_index_seeds()),
        Target("offload-map-data", offloaded.read_data, wire, offloaded.data_seeds(payloads)),
        Target(
            "tool-start",
            _text(lambda text: parse_start(text, 1_700_000_000_000)),
            (ToolError,),
            (b"earliest", b"12:34", b"10m", b"2026-11-21T12:00:00Z", b"1700000000000"),
        ),
        Target("bindings-file", _file(load_bindings), _YAML_ERRORS, (_BINDINGS, *_YAML_ODDITIES)),
        Target(
            "topic-patterns", _text(parse_pattern), _YAML_ERRORS, (b"persistent://public/default/o.*", b"a/b/(c|d)")
        ),
        Target(
            "configuration",
            _file(lambda path: make_config(read_config_file(path), {})),
            _YAML_ERRORS,
            (_CONFIG, _TIERED, *_YAML_ODDITIES),
        ),
        Target(
            "topic-names",
            _text(parse_topic_name),
            (TopicNameError,),
            (b"persistent://public/default/orders-partition-3", b"orders", b"non-persistent://a/b/c%20d"),
        ),
    )


_OLD_LEDGERS: Final = (
    b"BookieMetadataFormatVersion\t1\n2\n2\n0\n0\t127.0.0.1:3181\t127.0.0.1:3182\n4\tCLOSED\n",
    b"""BookieMetadataFormatVersion\t2
quorumSize: 2
ensembleSize: 2
length: 0
state: OPEN
segment {
  ensembleMember: "127.0.0.1:3181"
  ensembleMember: "127.0.0.1:3182"
  firstEntryId: 0
}
""",
)

TARGETS: Final = {target.name: target for target in _targets()}
"""All parsers by name."""
