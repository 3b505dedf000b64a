"""Hostile clients in short: at the owner and at a pool, with an innocent client beside each (`make hostile` is the full form)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.hostile.attacks import ATTACKS
from tests.hostile.run import run_attack, worse
from tests.integration.raw_client import RawClient

if TYPE_CHECKING:
    from devstack.pool import Pool
    from devstack.pulsar.status import Endpoints
    from tests.hostile.attacks import Attack

TOPICS = "persistent://public/default/test-"


@pytest.mark.parametrize("attack", [attack for attack in ATTACKS if attack.short], ids=lambda attack: attack.name)
def test_the_pool_is_no_worse_than_the_owner(pool: Pool, pulsar: Endpoints, attack: Attack) -> None:
    owner, served = (run_attack(attack, url, TOPICS) for url in (pulsar.writer_url, pool.brokers[0].url))
    assert worse(owner, served) == []
    with RawClient(pool.brokers[0].url) as client:
        client.ping()
