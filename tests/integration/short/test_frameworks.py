"""Frameworks in short: two programs with a pool whose serving broker is killed (`make -C lab frameworks` is the full form)."""

from pathlib import Path

import pytest

from devstack.pulsar.cluster import PulsarCluster
from longtests.frameworks.cases import BY_NAME
from longtests.frameworks.program import PROGRAMS, load_program
from longtests.frameworks.run import Job, Runs
from longtests.frameworks.table import problems

pytestmark = pytest.mark.nightly

CASES = ("owner", "pool", "pool-kill")


def test_two_frameworks_receive_the_same_at_the_owner_and_through_a_pool(
    pulsar_stack: PulsarCluster, tmp_path: Path
) -> None:
    programs = [load_program(PROGRAMS / name) for name in ("camel", "pulsar-client-reactive")]
    jobs = [Job(program, "Shared", BY_NAME[case]) for program in programs for case in CASES]
    results = Runs(pulsar_stack, tmp_path, workers=2).run(jobs, lambda _: None)
    assert problems(results) == []
    assert [result.build_error for result in results] == [""] * len(jobs)
    assert [result.counts.get("lost", 0) for result in results] == [0] * len(jobs)
