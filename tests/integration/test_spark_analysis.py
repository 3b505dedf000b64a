"""The analysts' example runs as it stands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pulsar as pulsar_lib

ROOT: Final = Path(__file__).parents[2]
DEADLINE_S: Final = 300
PNG: Final = b"\x89PNG\r\n\x1a\n"


def test_the_example_reads_decodes_adds_up_and_draws(spark_stack, topic, tmp_path) -> None:
    client = pulsar_lib.Client(
        spark_stack.endpoints.writer_url, logger=pulsar_lib.ConsoleLogger(pulsar_lib.LoggerLevel.Error)
    )
    producer = client.create_producer(topic, batching_enabled=True, block_if_queue_full=True)
    for number in range(300):
        order = {"shop": ("north", "south", "west")[number % 3], "amount": number / 4}
        producer.send_async(json.dumps(order).encode(), None)
    producer.flush()
    client.close()
    picture = tmp_path / "orders.png"
    words = [
        sys.executable,
        str(ROOT / "examples" / "spark" / "analysis.py"),
        spark_stack.endpoints.metadata_store,
        topic,
    ]
    # The owner tells the bookies a moment later of the last messages.
    deadline = time.monotonic() + DEADLINE_S
    while True:
        ran = subprocess.run(
            [*words, str(picture)], cwd=tmp_path, env={**os.environ, "MPLCONFIGDIR": str(tmp_path)},
            capture_output=True, text=True, timeout=DEADLINE_S, check=False,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr[-2000:]
        rows = [line.split() for line in ran.stdout.splitlines()]
        if sum(int(orders) for _, _, orders, _ in rows) >= 300:
            break
        assert time.monotonic() < deadline
    assert {shop for _, shop, _, _ in rows} == {"north", "south", "west"}
    for index, shop in enumerate(("north", "south", "west")):
        turnover = sum(float(amount) for _, name, _, amount in rows if name == shop)
        assert abs(turnover - sum(number / 4 for number in range(index, 300, 3))) < 0.5
    assert picture.read_bytes().startswith(PNG)
