"""Sound bytes of offloaded ledgers, made here, and the calls by which they are read: the fuzzer's way into tiered storage."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Final

from readonly_engine.wire.bookkeeper_pb2 import LedgerMetadataFormat
from readonly_engine.wire.managed_ledger_pb2 import LedgerInfo
from readonly_engine.wire.offload import INDEX_MAGIC, INDEX_V2_MAGIC, decode_index, scan_entries, verify_payload
from readonly_engine.wire.sequence_file import (
    check_ledger_data,
    decode_sequence_header,
    scan_block,
    scan_records,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

LEDGER: Final = 7
_LAST: Final = 9
_SYNC: Final = bytes(range(16))
_LONG: Final = "org.apache.hadoop.io.LongWritable"
_BYTES: Final = "org.apache.hadoop.io.BytesWritable"
_CODEC: Final = "org.apache.hadoop.io.compress.DefaultCodec"


def read_index(data: bytes) -> None:
    """An index object of the jcloud format."""
    index = decode_index(data, LEDGER)
    for entry_id in (0, _LAST, 1 << 40):
        index.block_of(entry_id)


def read_block(data: bytes) -> None:
    """A part of a data object of the jcloud format."""
    for entry_id, payload in scan_entries(data, 0, 0, 0, _LAST).found:
        verify_payload(payload, LEDGER, entry_id)


def read_data(data: bytes) -> None:
    """The file `data` of the filesystem format."""
    header = decode_sequence_header(data)
    check_ledger_data(header)
    if header.blocks:
        scan_block(data, header.end, header)
    else:
        scan_records(data, header.end, header, 0, _LAST)


def index_seeds() -> tuple[bytes, ...]:
    """An index of each version, with two blocks."""
    metadata = LedgerMetadataFormat(
        quorum_size=2, ensemble_size=2, length=100, last_entry_id=_LAST, state=LedgerMetadataFormat.CLOSED
    ).SerializeToString()
    info = LedgerInfo(ledger_id=LEDGER, entries=_LAST + 1, size=100).SerializeToString()
    blocks = struct.pack(">qiqqiq", 0, 1, 0, 5, 2, 500)
    first = struct.pack(">qqii", 1000, 128, 2, len(metadata)) + metadata + blocks
    second = struct.pack(">qqqii", 1000, 128, LEDGER, 2, len(info)) + info + blocks
    return tuple(
        struct.pack(">Ii", magic, len(rest) + 8) + rest
        for magic, rest in ((INDEX_MAGIC, first), (INDEX_V2_MAGIC, second))
    )


def block_seeds(payloads: Sequence[bytes]) -> tuple[bytes, ...]:
    """The entries of a block, and the padding behind them."""
    entries = b"".join(struct.pack(">iq", len(payload), number) + payload for number, payload in enumerate(payloads))
    return (entries, entries + b"\xfe\xdc\xde\xad" * 3)


def map_index_seeds() -> tuple[bytes, ...]:
    """A MapFile's index, block-compressed as Hadoop writes it, and one of plain records."""
    keys = [struct.pack(">q", number) for number in (-1, 5, 9)]
    values = [struct.pack(">q", number) for number in (100, 600, 1000)]
    lengths = bytes([8] * 3)
    buffers = [zlib.compress(part) for part in (lengths, b"".join(keys), lengths, b"".join(values))]
    block = b"\xff\xff\xff\xff" + _SYNC + b"\x03" + b"".join(bytes([len(part)]) + part for part in buffers)
    records = b"".join(struct.pack(">ii", 16, 8) + key + value for key, value in zip(keys, values, strict=True))
    return (_header(_LONG, _CODEC, blocks=True) + block, _header(_LONG, None, blocks=False) + records)


def data_seeds(payloads: Sequence[bytes]) -> tuple[bytes, ...]:
    """A ledger's file, plain and compressed record by record."""
    seeds = []
    for codec in (None, _CODEC):
        data = _header(_BYTES, codec, blocks=False)
        for number, payload in enumerate(payloads):
            value = struct.pack(">i", len(payload)) + payload
            value = zlib.compress(value) if codec else value
            data += struct.pack(">iiq", 8 + len(value), 8, number) + value
            data += b"\xff\xff\xff\xff" + _SYNC
        seeds.append(data)
    return tuple(seeds)


def _header(value_class: str, codec: str | None, *, blocks: bool) -> bytes:
    head = b"SEQ\x06" + _text(_LONG) + _text(value_class) + bytes([codec is not None, blocks])
    return head + (_text(codec) if codec else b"") + bytes(4) + _SYNC


def _text(text: str) -> bytes:
    return bytes([len(text)]) + text.encode()
