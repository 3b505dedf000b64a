"""Ledgers made by hand on real bookies: any digest, any ensemble, and replicas that miss entries or hold damaged ones.

No BookKeeper client can write such ledgers, and the engine's own cannot write at all. Entries go in by v3 ADD_ENTRY,
byte by byte as BookkeeperProtocol has it; the ledger's metadata goes into ZooKeeper as BookKeeper's client would put it there.
"""

import hashlib
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

from kazoo.client import KazooClient
from readonly_engine.metadata.cluster import ledger_path
from readonly_engine.wire.bookkeeper_pb2 import LedgerMetadataFormat
from readonly_engine.wire.digest import digest_for
from readonly_engine.wire.framing import FrameSplitter
from readonly_engine.wire.varint import encode_varint

DEADLINE_S = 30
IN_FLIGHT = 200


def bytes_field(number: int, value: bytes) -> bytes:
    return encode_varint(number << 3 | 2) + encode_varint(len(value)) + value


def number_field(number: int, value: int) -> bytes:
    return encode_varint(number << 3) + encode_varint(value)


def add_request(master_key: bytes, ledger_id: int, entry_id: int, body: bytes) -> bytes:
    header = number_field(1, 3) + number_field(2, 2) + number_field(3, entry_id)  # version 3, ADD_ENTRY, txnId
    add = number_field(1, ledger_id) + number_field(2, entry_id) + bytes_field(3, master_key) + bytes_field(4, body)
    frame = bytes_field(1, header) + bytes_field(101, add)
    return len(frame).to_bytes(4, "big") + frame


@dataclass
class HandMadeLedger:
    """A ledger, closed or open.

    `tamper` sees every replica before it is written: bookie index in the ensemble, entry id, bytes; it returns the bytes to
    write, or None for a replica that misses the entry.
    """

    ledger_id: int
    bookies: list[tuple[str, tuple[str, int]]]
    payloads: list[bytes]
    digest_type: int = LedgerMetadataFormat.CRC32C
    password: bytes = b""
    write_quorum: int = 2
    segments: list[tuple[int, list[int]]] = field(default_factory=lambda: [(0, [0, 1])])
    tamper: Callable[[int, int, bytes], bytes | None] = lambda _bookie, _entry, body: body
    closed: bool = True

    def bodies(self) -> list[bytes]:
        digest, length, made = digest_for(self.digest_type, self.password), 0, []
        for entry_id, payload in enumerate(self.payloads):
            length += len(payload)
            header = struct.pack(">qqqq", self.ledger_id, entry_id, entry_id - 1, length)
            made.append(header + digest.compute(header, payload) + payload)
        return made

    def write(self, zookeeper: KazooClient) -> None:
        self.add(range(len(self.payloads)))
        zookeeper.create(ledger_path("/ledgers", self.ledger_id), self.metadata(), makepath=True)

    def add(self, entry_ids: range) -> None:
        """Write these entries only."""
        key = hashlib.sha1(b"ledger" + self.password).digest()
        shares: dict[int, list[bytes]] = {}
        bodies = self.bodies()
        for entry_id in entry_ids:
            ensemble = [members for first, members in self.segments if first <= entry_id][-1]
            for i in range(self.write_quorum):
                bookie = ensemble[(entry_id + i) % len(ensemble)]
                replica = self.tamper(bookie, entry_id, bodies[entry_id])
                if replica is not None:
                    shares.setdefault(bookie, []).append(add_request(key, self.ledger_id, entry_id, replica))
        for bookie, requests in shares.items():
            add_all(self.bookies[bookie][1], requests)

    def metadata(self) -> bytes:
        message = LedgerMetadataFormat(
            quorum_size=self.write_quorum,
            ack_quorum_size=self.write_quorum,
            ensemble_size=len(self.segments[0][1]),
            length=sum(map(len, self.payloads)) if self.closed else 0,
            last_entry_id=len(self.payloads) - 1 if self.closed else -1,
            state=LedgerMetadataFormat.CLOSED if self.closed else LedgerMetadataFormat.OPEN,
            digest_type=self.digest_type,
            password=self.password,
        )
        for first, members in self.segments:
            message.segment.add(first_entry_id=first, ensemble_member=[self.bookies[i][0] for i in members])
        encoded = message.SerializeToString()
        return b"BookieMetadataFormatVersion\t3\n" + encode_varint(len(encoded)) + encoded


def add_all(address: tuple[str, int], requests: list[bytes]) -> None:
    """Send them all, a limited number at a time, and see each confirmed."""
    with socket.create_connection(address, DEADLINE_S) as connection:
        splitter = FrameSplitter()
        for start in range(0, len(requests), IN_FLIGHT):
            part = requests[start : start + IN_FLIGHT]
            connection.sendall(b"".join(part))
            waiting = len(part)
            while waiting:
                data = connection.recv(1 << 16)
                assert data, "the bookie closed the connection"
                for frame in splitter.receive_data(data):
                    # Response: header (field 1), then status (field 2): EOK is 0.
                    assert frame[2 + frame[1] : 4 + frame[1]] == b"\x10\x00", frame
                    waiting -= 1
