"""The feature matrix with one client, without rows that restart brokers (`make -C lab compat` is the full form).

Each row is played at the owner and through a pool, whose cursors the owner keeps or the pool itself.
"""

import sys
from pathlib import Path

import pytest

from devstack.pulsar.cluster import PulsarCluster
from longtests.compat import table
from longtests.compat.cells import Verdict
from longtests.compat.run import Named, Run
from longtests.compat.scenarios.catalogue import SCENARIOS
from longtests.compat.stack import make_place

pytestmark = pytest.mark.second_stack

COUNTED = ("batch_index", "batch_index_cumulative")
"""Rows of owners that count acks of single messages, which those of the shared stack do not: test_batch_indexes.py."""
DRIVER = Path(__file__).parents[3] / "lab" / "longtests" / "compat" / "python" / "driver.py"


@pytest.mark.parametrize("cursors", ["owner", pytest.param("local", marks=pytest.mark.nightly)])
def test_the_stock_python_client_observes_the_same_at_the_owner_and_through_a_pool(
    pulsar_stack: PulsarCluster, tmp_path: Path, cursors: str
) -> None:
    scenarios = [scenario for scenario in SCENARIOS if not scenario.own_pool and scenario.name not in COUNTED]
    client = Named("python-newest", (sys.executable, str(DRIVER)))
    place = make_place(pulsar_stack, tmp_path)
    matrix = Run(pulsar_stack, place, tmp_path, workers=8, cursors=cursors).run(scenarios, [client])
    assert table.unexplained(matrix) == []
    assert sum(cell.verdict is Verdict.EQUAL for cell in matrix.cells.values()) > 100
