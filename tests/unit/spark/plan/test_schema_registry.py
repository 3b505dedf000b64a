"""Schemas in a plan: each version is read once, and a task has those of its topics."""

import asyncio
from types import SimpleNamespace

import pytest
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.topic.position import Position
from readonly_engine.wire.schema_pb2 import SchemaEntry, SchemaInfo, SchemaLocator
from readonly_spark.options import parse_options
from readonly_spark.plan import schema_registry
from readonly_spark.plan.planner import Planner
from readonly_spark.plan.schema_registry import SchemaRegistry
from readonly_spark.plan.topic_state import ReadableLedger, TopicState
from readonly_spark.task import LedgerLocation
from readonly_spark.values.schema import Definition, ValueSchema

TOPIC = parse_topic_name("persistent://a/b/c")


class Storage:
    """The metadata store and the bookies of a schema registry, and the requests to them."""

    def __init__(self) -> None:
        self.versions: dict[int, tuple[int, bytes | None]] = {}  # ledger and definition; None marks a deletion
        self.deleted: set[int] = set()
        self.requests: list[str] = []

    async def get(self, path):
        self.requests.append(path)
        places = [
            {"version": one, "position": {"ledger_id": led, "entry_id": 0}} for one, (led, _) in self.versions.items()
        ]
        return SimpleNamespace(value=SchemaLocator(info=places[-1], index=places).SerializeToString())

    async def ledger(self, ledger_id):
        self.requests.append(f"ledger {ledger_id}")
        return None if ledger_id in self.deleted else ledger_id

    def reader(self, ledger_id, metadata, pool):
        async def read(first, last):
            self.requests.append(f"entry {ledger_id}:{first}")
            definition = next(one for led, one in self.versions.values() if led == ledger_id)
            info = SchemaInfo(type=SchemaInfo.Type.Value("AVRO"), schema=definition or b"", deleted=definition is None)
            payload = SchemaEntry(schema_data=info.SerializeToString()).SerializeToString()
            return [SimpleNamespace(payload=payload)]

        return SimpleNamespace(read=read)


@pytest.fixture
def storage(monkeypatch):
    made = Storage()
    monkeypatch.setattr(schema_registry, "LedgerReader", made.reader)
    return made


def test_a_version_is_read_once(storage, monkeypatch):
    registry = SchemaRegistry(storage, storage, None)

    def read(registry=registry):
        storage.requests.clear()
        found = asyncio.run(registry.read(TOPIC))
        return {version: one.text for version, one in found.versions.items()}, found.newest, len(storage.requests)

    storage.versions = {0: (10, b"a"), 1: (11, b"b")}
    assert read() == ({0: b"a", 1: b"b"}, 1, 5)
    assert read() == ({0: b"a", 1: b"b"}, 1, 1), "the list of versions only"
    storage.versions[2] = (12, None)
    assert read() == ({0: b"a", 1: b"b"}, 2, 3)
    storage.versions = {0: (20, b"z")}  # the topic was deleted and made again
    assert read() == ({0: b"z"}, 0, 3)
    storage.versions = {0: (30, b"y")}
    storage.deleted = {30}
    assert read() == ({}, 0, 2)
    monkeypatch.setattr(schema_registry, "MAX_KNOWN_VERSIONS", 2)
    storage.versions = {0: (40, b"p"), 1: (41, b"q"), 2: (42, b"r")}
    small = SchemaRegistry(storage, storage, None)
    assert [read(small)[2] for _ in range(2)] == [7, 7], "more than are kept"
    storage.versions.pop(2)
    assert [read(small)[2] for _ in range(2)][1] == 1, "as many as are kept"


def test_a_task_has_the_schemas_of_its_topics():
    schema = Definition("AVRO", b"{}")
    names = [f"persistent://a/b/t{number}-partition-0" for number in range(4)]
    states = {name: TopicState(name, (ReadableLedger(number, 9, 1000),)) for number, name in enumerate(names)}

    class Catalog:
        transactions = SimpleNamespace(scanned=lambda _: None)

        async def locations(self, ledgers):
            return {one.ledger_id: LedgerLocation(one.ledger_id, one.last, None) for one in ledgers}

        async def addresses(self, _):
            return {}

        async def value_schemas(self, found):
            return {str(parse_topic_name(name).base): ValueSchema(schema, {0: schema}) for name in found}

    options = parse_options(
        {"metadataStoreUrl": "zk:h:1", "topicsPattern": ".*", "maxBytesPerPartition": "2000"}, streaming=False
    )
    ends = dict.fromkeys(names, Position(9, 0))
    plans = asyncio.run(Planner(Catalog(), options).tasks(states, {}, ends))
    assert [sorted(plan.schemas) for plan in plans] == [
        ["persistent://a/b/t0", "persistent://a/b/t1"],
        ["persistent://a/b/t2", "persistent://a/b/t3"],
    ]
