"""The oracle in short: a random workload, and each entry of storage as its owner delivers it (`make -C lab oracle` has more)."""

import asyncio
import random

import pytest

from devstack.pulsar.cluster import PulsarCluster
from longtests.oracle.run import Options, Run

pytestmark = pytest.mark.second_stack


def test_storage_equals_what_the_owner_sends(pulsar_stack: PulsarCluster) -> None:
    seed = random.SystemRandom().randrange(1 << 31)
    options = Options(seed=seed, entries=1500, topics=8, transactions=0, restarts=False)
    report = asyncio.run(Run(pulsar_stack, options).run())
    assert report.passed, "\n".join(report.lines())
    assert report.total.stored >= 1500
    assert report.followed
