"""A message as an owner stores it in an entry, with real checksums."""

import google_crc32c
from readonly_engine.wire.message_pb2 import BrokerEntryMetadata, MessageMetadata


def stored_message(
    metadata: MessageMetadata,
    body: bytes = b"body",
    *,
    checksum: bool = True,
    broker: BrokerEntryMetadata | None = None,
) -> bytes:
    """Return the entry: the metadata of the broker, if there are any, the checksum, the metadata, and the body."""
    head = metadata.SerializeToString()
    entry = len(head).to_bytes(4, "big") + head + body
    if checksum:
        entry = b"\x0e\x01" + google_crc32c.value(entry).to_bytes(4, "big") + entry
    if broker is not None:
        front = broker.SerializeToString()
        entry = b"\x0e\x02" + len(front).to_bytes(4, "big") + front + entry
    return entry
