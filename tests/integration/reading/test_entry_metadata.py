"""The numbers that an owner gives messages (its own metadata of entries), as starts and ends of queries."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from readonly_spark.errors import SourceError

from devstack.pulsar.cluster import PulsarCluster
from tests.support.entry_metadata import EXPOSED, WRITTEN
from tests.support.messages import publish_numbers
from tests.support.pulsar.fleet import quiet_client
from tests.support.pulsar.spark_driver import Driver, read_rows
from tests.support.pulsar.stacks import fresh_stack
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.nightly, pytest.mark.own_stack]

SINGLES = 5
BATCH = 10


@pytest.fixture
def stack() -> Iterator[PulsarCluster]:
    with fresh_stack("entry-metadata", 26050, settings=(WRITTEN, EXPOSED)) as made:
        yield made


def test_a_query_starts_and_ends_at_the_number_of_a_message(stack: PulsarCluster, topic: str) -> None:
    batching = {"batching_enabled": True, "batching_max_messages": BATCH, "batching_max_publish_delay_ms": 10_000}
    with closing(quiet_client(stack.endpoints.writer_url)) as client:
        publish_numbers(client, topic, range(SINGLES), batching_enabled=False)
        publish_numbers(client, topic, range(BATCH), **batching)
    batch = list(range(SINGLES, SINGLES + BATCH))
    everything = [*range(SINGLES), *batch]
    starts = {0: everything, 3: [3, 4, *batch], 7: batch, batch[-1] + 1: []}
    ends = {0: [], 3: [0, 1, 2], SINGLES: list(range(SINGLES)), 7: everything, batch[-1] + 1: everything}
    cases = [("startingIndex", *one) for one in starts.items()] + [("endingIndex", *one) for one in ends.items()]
    for option, number, expected in cases:
        with closing(Driver(stack, topic, **{option: str(number)})) as driver:

            def read(driver: Driver = driver) -> list[int]:
                try:
                    return [row["index"] for row in read_rows(driver.tasks(), ("index",))]
                except SourceError:
                    return [-1]  # the bookies do not know the last entries yet

            wait_until(lambda read=read, expected=expected: read() == expected, 60, f"{option}={number}")
    with (
        closing(Driver(stack, topic, startingIndex=str(batch[-1] + 2))) as driver,
        pytest.raises(
            SourceError, match=f"has no message {batch[-1] + 2} yet; its next one has the number {batch[-1] + 1}"
        ),
    ):
        driver.tasks()
