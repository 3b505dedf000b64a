"""The churn in short: comings and goings, one read-only broker killed, one unload (`make -C lab churn` is the full form)."""

import asyncio
import random
from pathlib import Path

import pytest

from devstack.pulsar.cluster import PulsarCluster
from longtests.churn.plan import make_plan
from longtests.churn.report import lines
from longtests.churn.run import BROKERS, Run

pytestmark = [pytest.mark.nightly, pytest.mark.second_stack]

SECONDS = 25.0


def test_nothing_is_lost_doubled_or_disordered_while_clients_and_brokers_come_and_go(
    pulsar_stack: PulsarCluster, tmp_path: Path
) -> None:
    seed = random.SystemRandom().randrange(1 << 31)
    plan = make_plan(seed, SECONDS, topics=1, brokers=BROKERS)
    outcome = asyncio.run(Run(pulsar_stack, plan, tmp_path, direct=False).run())
    assert outcome.passed, "\n".join(lines(outcome))
    assert (outcome.done["kill"], outcome.done["unload"]) == (1, 1)
    assert outcome.messages > SECONDS
