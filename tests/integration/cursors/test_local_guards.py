"""What the owner keeps for local cursors: nothing less than they need, and nothing more for long."""

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, suppress

import pulsar
import pytest

from devstack.pool import Pool
from devstack.pulsar.admin import AdminError, PulsarAdmin
from tests.support.messages import numbers_of, publish_numbers
from tests.support.pulsar.fleet import quiet_client
from tests.support.pulsar.stacks import LEDGER_ENTRIES
from tests.support.waiting import wait_until

RECEIVE_MS = 20_000
QUOTA_BYTES = 800_000
GUARD = "pulsar-readonly-guard-"
EARLIEST = pulsar.InitialPosition.Earliest


@pytest.fixture
def kept_topic(admin: PulsarAdmin) -> str:
    """A topic whose owner keeps nothing but what subscriptions need."""
    namespace = f"public/kept-{uuid.uuid4().hex[:8]}"
    admin.create_namespace(namespace)
    admin.set_retention(namespace, minutes=0, megabytes=0)
    return f"persistent://{namespace}/orders"


@pytest.fixture
def kept_client(own_pool: Callable[..., Pool], kept_topic: str) -> Iterator[pulsar.Client]:
    pool = own_pool(2, "--topics", kept_topic, "--cursors", "local", "--cursor-partitions", "4")
    with closing(quiet_client(pool.url)) as client:
        yield client


def first_ledger(admin: PulsarAdmin, topic: str) -> int:
    admin.trim(topic)
    return int(admin.internal_stats(topic)["ledgers"][0]["ledgerId"])


def test_the_owner_deletes_what_all_have_acked_and_nothing_else(
    kept_client: pulsar.Client, pulsar_client: pulsar.Client, admin: PulsarAdmin, kept_topic: str
) -> None:
    total = 3 * LEDGER_ENTRIES + 10
    fast, slow = (kept_client.subscribe(kept_topic, name, initial_position=EARLIEST) for name in ("fast", "slow"))
    ids = publish_numbers(pulsar_client, kept_topic, range(total), batching_enabled=False)
    for _ in range(total):
        fast.acknowledge(fast.receive(RECEIVE_MS))
    got = [slow.receive(RECEIVE_MS) for _ in range(total)]
    assert numbers_of(got) == list(range(total))
    # Attempts to trim, over more time than the guards need to move.
    until = time.monotonic() + 4
    wait_until(lambda: first_ledger(admin, kept_topic) != ids[0].ledger_id() or time.monotonic() > until, 10)
    assert first_ledger(admin, kept_topic) == ids[0].ledger_id(), "the owner has deleted what a local cursor needs"
    slow.acknowledge_cumulative(got[2 * LEDGER_ENTRIES + 5])
    wait_until(lambda: first_ledger(admin, kept_topic) == ids[2 * LEDGER_ENTRIES + 5].ledger_id(), 30)
    slow.acknowledge_cumulative(got[-1])
    wait_until(lambda: first_ledger(admin, kept_topic) == ids[-1].ledger_id(), 30)


@pytest.mark.nightly
def test_a_seek_back_holds_what_is_still_there(
    kept_client: pulsar.Client, pulsar_client: pulsar.Client, admin: PulsarAdmin, kept_topic: str
) -> None:
    total = 2 * LEDGER_ENTRIES + 10
    one = kept_client.subscribe(kept_topic, "one", initial_position=EARLIEST)
    keeper = pulsar_client.subscribe(kept_topic, "keeper", initial_position=EARLIEST)
    ids = publish_numbers(pulsar_client, kept_topic, range(total), batching_enabled=False)
    for _ in range(total):
        one.acknowledge(one.receive(RECEIVE_MS))

    def guard_ledger() -> int:
        cursors = admin.internal_stats(kept_topic)["cursors"]
        (guard,) = [found for name, found in cursors.items() if name.startswith(GUARD)]
        return int(guard["readPosition"].partition(":")[0])

    wait_until(lambda: guard_ledger() == ids[-1].ledger_id(), 30)
    one.seek(ids[3])
    assert guard_ledger() == ids[0].ledger_id(), "the guard moves before the seek is answered"
    keeper.unsubscribe()
    until = time.monotonic() + 3
    wait_until(lambda: first_ledger(admin, kept_topic) != ids[0].ledger_id() or time.monotonic() > until, 10)
    again = [one.receive(RECEIVE_MS) for _ in range(total - 4)]
    assert numbers_of(again) == list(range(4, total))


@pytest.mark.nightly
def test_a_backlog_quota_counts_what_consumers_have_not_acked(
    kept_client: pulsar.Client, pulsar_client: pulsar.Client, admin: PulsarAdmin, kept_topic: str
) -> None:
    """All messages are in the open ledger, so a guard at its begin would count as a consumer that has acked nothing."""
    namespace = kept_topic.removeprefix("persistent://").rpartition("/")[0]
    quota = {"limitSize": QUOTA_BYTES, "limitTime": -1, "policy": "producer_exception"}
    admin.set_namespace_policy(namespace, "backlogQuota", quota)
    consumers = [kept_client.subscribe(kept_topic, name, initial_position=EARLIEST) for name in ("fast", "slow")]

    def publish(count: int) -> bool:
        """Publish with a new producer, which the owner refuses at once while the quota is exceeded."""
        try:
            producer = pulsar_client.create_producer(kept_topic, batching_enabled=False)
        except pulsar.ProducerBlockedQuotaExceededException:
            return False
        for _ in range(count):
            producer.send(bytes(QUOTA_BYTES // 8))
        producer.close()
        return True

    assert publish(9)
    assert not publish(1), "nobody has acked anything"
    got = [[consumer.receive(RECEIVE_MS) for _ in range(9)] for consumer in consumers]
    consumers[0].acknowledge_cumulative(got[0][-1])
    consumers[1].acknowledge_cumulative(got[1][0])
    until = time.monotonic() + 12  # a guard that follows one cursor only would have moved
    wait_until(lambda: publish(0) or time.monotonic() > until, 15)
    assert not publish(1), "one of them lags"
    consumers[1].acknowledge_cumulative(got[1][-1])
    wait_until(lambda: publish(1), 30)
    assert [len(consumer.receive(RECEIVE_MS).data()) for consumer in consumers] == [QUOTA_BYTES // 8] * 2


@pytest.mark.nightly
@pytest.mark.parametrize("how", ["as by its TTL", "as by its quota"])
def test_what_the_owner_expires_is_expired_here(
    how: str, kept_client: pulsar.Client, pulsar_client: pulsar.Client, admin: PulsarAdmin, kept_topic: str
) -> None:
    busy = kept_client.subscribe(kept_topic, "busy", initial_position=EARLIEST)
    idle = kept_client.subscribe(kept_topic, "idle", initial_position=EARLIEST)
    idle.close()
    ids = publish_numbers(pulsar_client, kept_topic, range(LEDGER_ENTRIES + 10), batching_enabled=False)
    first = busy.receive(RECEIVE_MS)
    assert int(first.data()) == 0

    def expired() -> bool:
        """The owner moves the guards on."""
        for name in (name for name in admin.subscriptions(kept_topic) if name.startswith(GUARD)):
            if how == "as by its TTL":
                with suppress(AdminError):  # the last time has not ended, or hardly anything is left
                    admin.expire(kept_topic, name, 1)
            else:
                admin.skip_all(kept_topic, name)
        return first_ledger(admin, kept_topic) == ids[-1].ledger_id()

    wait_until(expired, 30)
    busy.close()
    for name in ("busy", "idle"):
        consumer = kept_client.subscribe(kept_topic, name)
        publish_numbers(pulsar_client, kept_topic, [7000], batching_enabled=False)

        def expiry_is_here(consumer: pulsar.Consumer = consumer) -> bool:
            return int(consumer.receive(RECEIVE_MS).data()) >= LEDGER_ENTRIES

        wait_until(expiry_is_here, 90)
        consumer.close()
