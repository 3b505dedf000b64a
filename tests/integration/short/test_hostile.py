"""Hostile clients in short: at the owner and at a pool, with an innocent client beside each (`make -C lab hostile` has all)."""

import pytest

from devstack.pool import Pool
from devstack.pulsar.status import Endpoints
from longtests.hostile.attacks import ATTACKS, Attack
from longtests.hostile.commands import ROWS, CommandRow, broker_counts, run_row, settled, worse_row
from longtests.hostile.run import run_attack, worse
from tests.support.pulsar.raw_client import RawClient
from tests.support.waiting import wait_until

pytestmark = pytest.mark.second_stack

TOPICS = "persistent://public/default/test-"


@pytest.mark.parametrize("attack", [attack for attack in ATTACKS if attack.short], ids=lambda attack: attack.name)
def test_the_pool_is_no_worse_than_the_owner(pool: Pool, pulsar: Endpoints, attack: Attack) -> None:
    owner, served = (run_attack(attack, url, TOPICS) for url in (pulsar.writer_url, pool.brokers[0].url))
    assert worse(owner, served) == []
    with RawClient(pool.brokers[0].url) as client:
        client.ping()


SETTLED_S = 60.0
SHORT = {"CONNECT", "SUBSCRIBE", "SEND", "ACK", "LOOKUP", "SEEK"}


@pytest.mark.parametrize("row", [row for row in ROWS if SHORT.intersection(row.commands)], ids=lambda row: row.name)
def test_malformed_commands_harm_nobody_at_the_pool(pool: Pool, pulsar: Endpoints, row: CommandRow) -> None:
    broker = pool.brokers[0]
    before = broker_counts(broker)
    owner, served = (run_row(row, url, TOPICS) for url in (pulsar.writer_url, broker.url))
    assert worse_row(owner, served) == []
    wait_until(lambda: settled(before, broker_counts(broker)), SETTLED_S, f"the counts are {before} again")
