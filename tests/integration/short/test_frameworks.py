"""Two programs of frameworks at the owner and through a pool, and two while servers are disturbed (`make -C lab frameworks`)."""

from pathlib import Path

import pytest

from devstack.pulsar.cluster import PulsarCluster
from longtests.frameworks.cases import BY_NAME
from longtests.frameworks.program import PROGRAMS, load_program
from longtests.frameworks.run import Job, Runs
from longtests.frameworks.table import problems


def check(stack: PulsarCluster, folder: Path, names: tuple[str, ...], cases: tuple[str, ...]) -> None:
    """Run programs with a Shared subscription; nothing may be lost, or different through the pool."""
    jobs = [Job(load_program(PROGRAMS / name), "Shared", BY_NAME[case]) for name in names for case in cases]
    results = Runs(stack, folder, workers=2).run(jobs, lambda _: None)
    assert problems(results) == []
    assert [result.build_error for result in results] == [""] * len(jobs)
    assert [result.counts.get("lost", 0) for result in results] == [0] * len(jobs)


def test_two_frameworks_receive_the_same_at_the_owner_and_through_a_pool(
    pulsar_stack: PulsarCluster, tmp_path: Path
) -> None:
    check(pulsar_stack, tmp_path, ("camel", "python-asyncio"), ("owner", "pool"))


@pytest.mark.nightly
def test_two_frameworks_lose_nothing_when_the_serving_broker_is_killed(
    pulsar_stack: PulsarCluster, tmp_path: Path
) -> None:
    check(pulsar_stack, tmp_path, ("camel", "pulsar-client-reactive"), ("owner-unload", "pool-kill"))
