"""The bytes of a task, which Spark sends to an executor with each micro-batch."""

import asyncio
import json
import pickle
from types import SimpleNamespace

from readonly_engine.topic.position import Position
from readonly_engine.wire.ledgers import LedgerMetadata
from readonly_spark.options import parse_options
from readonly_spark.plan.planner import Planner
from readonly_spark.plan.topic_state import ReadableLedger, TopicState
from readonly_spark.source import TaskPartition
from readonly_spark.task import LedgerLocation
from readonly_spark.values.schema import Definition, ValueSchema

TOPICS = 1000
VERSIONS = 5
LEDGERS = 3
"""Of each topic: a task knows the two before its own."""

MAX_TASK_BYTES = 100_000


def definition(topic: int, version: int) -> Definition:
    fields = [{"name": f"field{n}", "type": ["null", "string"], "default": None} for n in range(10 + version)]
    return Definition("AVRO", json.dumps({"type": "record", "name": f"Order{topic}", "fields": fields}).encode())


class Catalog:
    transactions = SimpleNamespace(scanned=lambda _: None)

    async def locations(self, found):
        bookies = [f"10.0.0.{n}:3181" for n in range(1, 6)]
        return {
            one.ledger_id: LedgerLocation(
                one.ledger_id,
                one.last,
                LedgerMetadata(
                    ((0, (bookies[one.ledger_id % 5], bookies[(one.ledger_id * 7 + 1) % 5])),), 2, 2, True, 99, 2
                ),
            )
            for one in found
        }

    async def addresses(self, _):
        return {}

    async def value_schemas(self, names):
        found = {}
        for name in names:
            topic = int(name.rpartition("-")[2])
            versions = {version: definition(topic, version) for version in range(VERSIONS)}
            found[name] = ValueSchema(versions[VERSIONS - 1], versions)
        return found


def test_a_task_of_many_topics_is_small():
    names = [f"persistent://public/default/topic-{number}" for number in range(TOPICS)]
    states, starts, ends = {}, {}, {}
    for number, name in enumerate(names):
        last = LEDGERS * number + LEDGERS - 1
        ids = range(LEDGERS * number, last + 1)
        states[name] = TopicState(name, tuple(ReadableLedger(one, 99, 10_000) for one in ids))
        starts[name], ends[name] = Position(last, 0), Position(last, 100)
    options = parse_options(
        {"metadataStoreUrl": "zk:h:1", "topicsPattern": ".*", "valueSchema": "auto"}, streaming=False
    )
    (plan, *_) = asyncio.run(Planner(Catalog(), options).tasks(states, starts, ends))
    assert len(plan.schemas) > TOPICS * 0.9
    sent = pickle.dumps(TaskPartition(plan))
    assert len(sent) < MAX_TASK_BYTES
    assert pickle.loads(sent).plan == plan
