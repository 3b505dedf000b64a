"""Planning and reading as Spark's driver and tasks do, without Spark: quick, and with anything in between."""

import time
from collections.abc import Iterable
from typing import Any, Final

import pulsar as pulsar_lib
import pyarrow as pa
from readonly_spark.loop_thread import LoopThread
from readonly_spark.options import parse_options
from readonly_spark.plan.catalog import Catalog
from readonly_spark.plan.planner import Planner
from readonly_spark.plan.topic_state import TopicState
from readonly_spark.position_options import EARLIEST
from readonly_spark.read.task_reader import read_task
from readonly_spark.rows.columns import BY_NAME, NAMES
from readonly_spark.task import TaskPlan

from devstack.pulsar.cluster import PulsarCluster

DEADLINE_S: Final = 180


def publish(client: pulsar_lib.Client, topic: str, first: int, last: int, batch: int = 1, **options: Any) -> None:
    """Messages m-FIRST to m-LAST, in batches of so many."""
    producer = client.create_producer(
        topic,
        batching_enabled=batch > 1,
        batching_max_messages=max(batch, 2),
        block_if_queue_full=True,
        **options,
    )
    for number in range(first, last + 1):
        producer.send_async(f"m-{number}".encode(), None)
    producer.flush()
    producer.close()


def numbers(first: int, last: int) -> list[str]:
    """The values of these messages."""
    return [f"m-{number}" for number in range(first, last + 1)]


class Driver:
    """One reader of topics. Close it.

    Args:
        stack: the cluster.
        topic: the topic; empty where an option names others.
        options: more of them.
    """

    def __init__(self, stack: PulsarCluster, topic: str = "", **options: str) -> None:
        named = {"topic": topic} if topic else {}
        given = {"metadataStoreUrl": stack.endpoints.metadata_store, **named, **options}
        self._options = parse_options(given, streaming=False)
        self._loop = LoopThread()
        self.catalog = self.call(self._open())
        self.planner = Planner(self.catalog, self._options)

    async def _open(self) -> Catalog:
        catalog = Catalog(self._options)
        await catalog.open()
        return catalog

    def call(self, work: Any) -> Any:
        """Wait for a coroutine."""
        return self._loop.call(work, DEADLINE_S)

    def close(self) -> None:
        """End its connections."""
        self.call(self.catalog.close())
        self._loop.stop()

    def states(self) -> dict[str, TopicState]:
        """The topics as they are now."""
        return self.call(self.planner.states())

    def tasks(self, *former: dict[str, TopicState]) -> list[TaskPlan]:
        """The tasks that read what the options name; `former` stands for the results of the first lookups."""
        given = list(former)

        async def ranges() -> tuple[Any, ...]:
            states = given.pop() if given else await self.planner.states()
            return states, await self.planner.starts(states, EARLIEST), await self.planner.ends(states)

        return self.call(self.planner.tasks_of(ranges))

    def plan(self, count: int) -> list[TaskPlan]:
        """The same, once so many entries can be read: the owner tells the bookies of the last ones a moment later."""
        deadline = time.monotonic() + DEADLINE_S
        while sum(ledger.last + 1 for state in self.states().values() for ledger in state.ledgers) < count:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        return self.tasks()

    def values(self) -> list[str]:
        """What is read now."""
        return read(self.tasks())

    def await_values(self, expected: list[str]) -> None:
        """Wait until this is what is read, and nothing else."""
        deadline = time.monotonic() + DEADLINE_S
        while (found := self.values()) != expected:
            assert time.monotonic() < deadline, f"{len(found)} values, {len(expected)} are expected"
            time.sleep(0.05)


def read_rows(tasks: Iterable[TaskPlan], names: Iterable[str] = NAMES) -> list[dict[str, Any]]:
    """What tasks give, in their order."""
    schema = pa.schema([(name, BY_NAME[name].arrow) for name in names])
    return [row for task in tasks for found in read_task(task, schema) for row in found.to_pylist()]


def read(tasks: Iterable[TaskPlan]) -> list[str]:
    """The values alone."""
    return [row["value"].decode() for row in read_rows(tasks, ("value",))]
