"""The requests of a stream's driver to the metadata store and the bookies, for each micro-batch."""

import re
from collections import Counter
from types import SimpleNamespace
from typing import Final

from readonly_engine.metadata.cluster import ClusterMetadata
from readonly_engine.metadata.store import Versioned
from readonly_engine.wire.bookkeeper_pb2 import LedgerMetadataFormat
from readonly_engine.wire.schema_pb2 import SchemaEntry, SchemaInfo, SchemaLocator
from readonly_engine.wire.varint import encode_varint
from readonly_spark.options import parse_options
from readonly_spark.plan import catalog, schema_registry
from readonly_spark.plan.admission import Limits
from readonly_spark.stream import StreamPlanner

from tests.support.ledgers import ledger_list

TOPICS: Final = 1000
VERSIONS: Final = 5
BOOKIES: Final = ("bookie-0:3181", "bookie-1:3181")
SCHEMA_LEDGERS: Final = 1_000_000
"""The first id of the ledgers of schemas."""


class Cluster:
    """The metadata store and the bookies of topics with one open ledger each, and the requests to them.

    Attributes:
        requests: since they were last cleared, by kind.
        lac: the last entry of each open ledger.
        versions: of each topic's schema.
    """

    connected = True

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.lac = 9
        self.versions = VERSIONS
        self._names = frozenset(f"topic-{number}" for number in range(TOPICS))
        segment = LedgerMetadataFormat.Segment(ensemble_member=BOOKIES, first_entry_id=0)
        open_one = LedgerMetadataFormat.OPEN
        metadata = LedgerMetadataFormat(quorum_size=2, ensemble_size=2, length=0, state=open_one, segment=[segment])
        stored = metadata.SerializeToString()
        self._ledger = b"BookieMetadataFormatVersion\t3\n" + encode_varint(len(stored)) + stored
        self.main = self
        self.cluster = ClusterMetadata(self)

    async def start(self) -> None:
        """Connect."""

    async def close(self) -> None:
        """End the session."""

    async def children(self, path: str) -> frozenset[str]:
        self.requests["store: names"] += 1
        return self._names if path.startswith("/managed-ledgers") else frozenset()

    async def get(self, path: str) -> Versioned | None:
        number = int(path.rpartition("-")[2]) if "topic-" in path else 0
        if path.startswith("/managed-ledgers"):
            self.requests["store: topics"] += 1
            return Versioned(ledger_list(number).SerializeToString(), 0)
        if path.startswith("/schemas"):
            self.requests["store: lists of versions"] += 1
            places = [
                {"version": one, "position": {"ledger_id": SCHEMA_LEDGERS + number * 100 + one, "entry_id": 0}}
                for one in range(self.versions)
            ]
            return Versioned(SchemaLocator(info=places[-1], index=places).SerializeToString(), 0)
        if re.search(r"/L\d+$", path):
            ledger_id = int(re.sub(r"\D", "", path))
            self.requests["store: open ledgers" if ledger_id < SCHEMA_LEDGERS else "store: versions of schemas"] += 1
            return Versioned(self._ledger, 0)
        self.requests["store: bookies and id"] += 1
        return None

    def reader(self, ledger_id, metadata, pool):
        """Stand in for LedgerReader."""

        async def read_lac():
            self.requests["bookies: ends"] += 1
            return SimpleNamespace(lac=self.lac)

        async def read(first, last):
            if ledger_id < SCHEMA_LEDGERS:
                self.requests["bookies: last entries"] += 1
                return [SimpleNamespace(length=100 * (last + 1))]
            self.requests["bookies: versions of schemas"] += 1
            info = SchemaInfo(type=SchemaInfo.Type.Value("AVRO"), schema=b'"string"')
            return [SimpleNamespace(payload=SchemaEntry(schema_data=info.SerializeToString()).SerializeToString())]

        return SimpleNamespace(read=read, read_lac=read_lac)


def test_versions_of_schemas_are_requested_once(monkeypatch) -> None:
    cluster = Cluster()
    monkeypatch.setattr(catalog, "ClusterStores", lambda *_: cluster)
    for module in (catalog, schema_registry):
        monkeypatch.setattr(module, "LedgerReader", cluster.reader)
    options = {
        "metadataStoreUrl": "zk:127.0.0.1:1",
        "topicsPattern": "persistent://public/default/topic-.*",
        "valueSchema": "auto",
        "startingOffsets": "earliest",
    }
    planner = StreamPlanner(parse_options(options, streaming=True))
    try:
        offset = planner.start()

        def micro_batch() -> Counter[str]:
            nonlocal offset
            cluster.requests.clear()
            start, offset = offset, planner.end(offset, Limits())
            plans = planner.tasks(start, offset)
            assert sum(len(plan.ranges) for plan in plans) == TOPICS
            cluster.lac += 10
            return Counter(cluster.requests)

        first, second = micro_batch(), micro_batch()
        cluster.versions += 1
        third = micro_batch()
    finally:
        planner.close()
    of_versions = {"store: versions of schemas": TOPICS, "bookies: versions of schemas": TOPICS}
    assert {kind: first[kind] for kind in of_versions} == dict.fromkeys(of_versions, TOPICS * VERSIONS)
    of_topics = {
        "store: topics": TOPICS,
        "store: open ledgers": TOPICS,
        "store: lists of versions": TOPICS,
        "bookies: ends": TOPICS,
        "bookies: last entries": TOPICS,
    }
    assert {kind: count for kind, count in second.items() if count >= TOPICS} == of_topics
    assert {kind: count for kind, count in third.items() if count >= TOPICS} == of_topics | of_versions
    assert second.total() < len(of_topics) * TOPICS + 10
