"""The analysts' example runs as it stands."""

import json
import runpy
import sys
import time
from pathlib import Path
from typing import Final

import pytest

from tests.support.pulsar.fleet import quiet_client

EXAMPLE: Final = Path(__file__).parents[3] / "examples" / "spark" / "analysis.py"
DEADLINE_S: Final = 180
PNG: Final = b"\x89PNG\r\n\x1a\n"

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.filterwarnings(
        "ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"
    ),
]


def test_the_example_reads_decodes_adds_up_and_draws(spark, spark_stack, topic, tmp_path, monkeypatch, capsys) -> None:
    client = quiet_client(spark_stack.endpoints.writer_url)
    producer = client.create_producer(topic, batching_enabled=True, block_if_queue_full=True)
    for number in range(300):
        order = {"shop": ("north", "south", "west")[number % 3], "amount": number / 4}
        producer.send_async(json.dumps(order).encode(), None)
    producer.flush()
    client.close()
    picture = tmp_path / "orders.png"
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), spark_stack.endpoints.metadata_store, topic, str(picture)])
    # The owner tells the bookies a moment later of the last messages.
    deadline = time.monotonic() + DEADLINE_S
    while True:
        runpy.run_path(str(EXAMPLE))  # it takes the Spark that runs
        rows = [line.split() for line in capsys.readouterr().out.splitlines()]
        if sum(int(orders) for _, _, orders, _ in rows) >= 300:
            break
        assert time.monotonic() < deadline
    assert {shop for _, shop, _, _ in rows} == {"north", "south", "west"}
    for index, shop in enumerate(("north", "south", "west")):
        turnover = sum(float(amount) for _, name, _, amount in rows if name == shop)
        assert abs(turnover - sum(number / 4 for number in range(index, 300, 3))) < 0.5
    assert picture.read_bytes().startswith(PNG)
