"""The feature matrix in short: a few scenarios with one client (`make -C lab compat` is the full form)."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from longtests.compat import table
from longtests.compat.cells import Verdict
from longtests.compat.run import Named, Run
from longtests.compat.scenarios.catalogue import SCENARIOS
from longtests.compat.stack import make_place

if TYPE_CHECKING:
    from devstack.pulsar.cluster import PulsarCluster

DRIVER = Path(__file__).parents[2] / "lab" / "longtests" / "compat" / "python" / "driver.py"
ROWS = (
    "exclusive",
    "exclusive_busy",
    "failover_switches",
    "shared",
    "key_shared",
    "individual_holes",
    "cumulative",
    "nack",
    "delayed",
    "seek_id",
    "reader_in_batch",
    "compacted",
    "attributes",
    "chunked",
    "partitioned",
    "pattern_shared",
    "terminated",
    "name_taken",
    "deduplication_stores_all",
    "stays_connected",
    "unload_exclusive",
)


def test_the_stock_python_client_observes_the_same_at_the_owner_and_through_a_pool(pulsar_stack: PulsarCluster) -> None:
    scenarios = [scenario for scenario in SCENARIOS if scenario.name in ROWS]
    client = Named("python-newest", (sys.executable, str(DRIVER)))
    with tempfile.TemporaryDirectory() as folder:
        matrix = Run(pulsar_stack, make_place(pulsar_stack, Path(folder)), Path(folder), workers=8).run(
            scenarios, [client]
        )
    assert table.unexplained(matrix) == []
    assert [name for (name, _), cell in matrix.cells.items() if cell.verdict is not Verdict.EQUAL] == []
    assert len(matrix.cells) == len(ROWS)
