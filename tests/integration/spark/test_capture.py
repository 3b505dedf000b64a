"""Change data capture end to end: changes of a table, published by the stock Java client, merged into a Delta table."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from devstack.jars.fetch import ensure_jars
from devstack.pulsar.cluster import PulsarCluster
from devstack.pulsar.distribution import ensure_distribution
from tests.integration.spark.export_process import DEADLINE_S

pytestmark = pytest.mark.nightly

ROOT: Final = Path(__file__).parents[3]
EXAMPLE: Final = ROOT / "examples" / "spark" / "changes.py"
PROGRAM: Final = Path(__file__).parent / "ChangeClient.java"


def publish(stack: PulsarCluster, topic: str, step: int) -> None:
    home = ensure_distribution(stack.spec.version)
    words = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{home}/lib/*", str(PROGRAM), stack.endpoints.writer_url, topic]
    done = subprocess.run([*words, str(step)], capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert "published" in done.stdout, done.stdout + done.stderr


def merged(stack: PulsarCluster, topic: str, folder: Path) -> dict[int, dict[str, Any]]:
    """Run the example; return the rows of the table by their key."""
    words = [
        sys.executable,
        str(EXAMPLE),
        stack.endpoints.metadata_store,
        topic,
        str(folder / "table"),
        str(folder / "checkpoint"),
    ]
    # A JVM that will not live long compiles in a hurry.
    quick = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1"}
    environment = {**os.environ, **quick, "PULSAR_READONLY_SPARK_JARS": str(ensure_jars("delta"))}
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=DEADLINE_S, check=False, cwd=folder, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    found = {row["id"]: row for row in rows}
    assert len(found) == len(rows)
    return found


def test_changes_and_deletions_of_two_versions_of_a_schema_are_merged(spark_stack, driver, topic, tmp_path) -> None:
    publish(spark_stack, topic, 1)
    reading = driver(topic)
    reading.plan(7)
    first = {1: {"id": 1, "name": "name-1"}, 2: {"id": 2, "name": "changed"}, 3: {"id": 3, "name": "name-3"}}
    assert merged(spark_stack, topic, tmp_path) == first
    publish(spark_stack, topic, 2)
    reading.plan(12)
    second = {
        1: {"id": 1, "name": "dear", "price": 9.5},
        2: {"id": 2, "name": "changed"},
        4: {"id": 4, "name": "again"},
        5: {"id": 5, "name": "name-5", "price": 0.5},
    }
    assert merged(spark_stack, topic, tmp_path) == second
    assert merged(spark_stack, topic, tmp_path) == second, "nothing has come since"
