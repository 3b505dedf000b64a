"""Acks that an owner confirms and ignores, because its topic's end is behind what it told the bookies.

An owner's BookKeeper client counts an entry as confirmed, and tells the bookies, before the managed ledger does so, in another
thread (OpAddEntry.addComplete and run). A cursor ignores acks of entries after the managed ledger's end, and the receipt does
not say so (ManagedCursorImpl.asyncDelete, Consumer.individualAckNormal). A stock client never acks such an entry, since its
broker delivers none. A read-only broker reads the bookies.
"""

import os
import signal
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import NamedTuple

import pulsar
import pytest
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandAck, CommandSubscribe

from devstack.pool import Pool
from devstack.pulsar.admin import AdminError, PulsarAdmin
from devstack.pulsar.cluster import PulsarCluster
from tests.support.pulsar.raw_client import RawClient
from tests.support.stopped_thread import permitted, stopped, threads
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.second_stack,
    pytest.mark.skipif(not permitted(), reason="this machine does not let one process stop a thread of another"),
]

WORKERS = "BookKeeperClientWorker"
DELIVERED_S = 5.0
PENDING_S = 10.0
HELD_S = 1.0
REPAIRED_S = 60.0
TOPICS = 12
"""Topics to try: hashes of names and ledger ids determine the threads, of which there are a few."""


def pids(stack: PulsarCluster, kind: str) -> list[int]:
    return [server.pid for server in stack.status().servers if server.name.startswith(kind) and server.pid]


@contextmanager
def silent(processes: list[int]) -> Iterator[None]:
    for pid in processes:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in processes:
            os.kill(pid, signal.SIGCONT)


class Scene:
    """A topic whose owner is about to count an entry that the bookies have confirmed already."""

    def __init__(self, stack: PulsarCluster, admin: PulsarAdmin, publisher: pulsar.Client, topic: str) -> None:
        self._stack, self._admin, self._topic = stack, admin, topic
        self._bookies = pids(stack, "bookie")
        self._producer = publisher.create_producer(topic, batching_enabled=False)
        self._producer.send(b"first")
        self.shown = False

    def is_acked(self, subscription: str, last: tuple[int, int]) -> bool:
        cursor = self._admin.internal_stats(self._topic)["cursors"][subscription]
        return bool(cursor["markDeletePosition"] == f"{last[0]}:{last[1]}")

    def last_acked(self, subscription: str) -> int:
        """When the owner has got an ack of the subscription's consumer, in milliseconds."""
        stats = self._admin.stats(self._topic)["subscriptions"][subscription]
        return max(int(consumer["lastAckedTimestamp"]) for consumer in stats["consumers"])

    def is_idle(self) -> bool:
        return self._pending() == 0

    def _pending(self) -> int:
        return int(self._admin.internal_stats(self._topic)["pendingAddEntriesCount"])

    def _reached(self, pending: int) -> bool:
        try:
            wait_until(lambda: self._pending() == pending, PENDING_S)
        except (AssertionError, AdminError):
            return False
        return True

    def early(self, client: RawClient) -> Iterator[tuple[int, int]]:
        """Yield positions of entries, each while another thread of the owner is stopped, until it was the managed ledger's.

        `shown` is False in the end if one thread handles this topic's managed ledger and the bookies' answers.
        """
        for owner in pids(self._stack, "broker"):
            for thread in threads(owner, WORKERS):
                receipts: list[object] = []
                with ExitStack() as meanwhile:
                    with silent(self._bookies):
                        self._producer.send_async(b"next", lambda result, _, told=receipts: told.append(result))
                        if not self._reached(1):
                            return  # the topic is being moved, for one; the next topic may show it
                        meanwhile.enter_context(stopped(thread))
                    try:
                        command, _ = client.wait(lambda one: one.type == BaseCommand.MESSAGE, DELIVERED_S)
                    except TimeoutError:  # this thread handles the bookies' answers
                        came = None
                    else:
                        came = command.message.message_id
                        yield came.ledger_id, came.entry_id
                        if not receipts:
                            self.shown = True
                            return
                if came is None:
                    command, _ = client.wait(lambda one: one.type == BaseCommand.MESSAGE)
                    yield command.message.message_id.ledger_id, command.message.message_id.entry_id
                wait_until(self.is_idle, 30)


@pytest.mark.parametrize(("sub_type", "kind"), [("Shared", "Individual"), ("Exclusive", "Cumulative")])
@pytest.mark.parametrize("receipt", [False, True])
def test_an_ack_that_comes_before_its_owner_counts_the_entry_is_not_lost(
    breakable_pulsar: PulsarCluster,
    admin: PulsarAdmin,
    pulsar_client: pulsar.Client,
    own_pool: Callable[..., Pool],
    topic: str,
    sub_type: str,
    kind: str,
    receipt: bool,
) -> None:
    """An ack without a receipt is sent at once, and again later. One with a receipt waits, and the receipt with it."""
    broker = own_pool(1, "--topics", f"{topic}.*", "--tail", "bookies").brokers[0]
    for _ in range(TOPICS):
        name = f"{topic}-{uuid.uuid4().hex[:8]}"
        scene = Scene(breakable_pulsar, admin, pulsar_client, name)
        with RawClient(broker.url) as client:
            last = acked_early(scene, client, Acks(name, sub_type, kind, receipt))
            if scene.shown:
                if receipt:
                    client.wait(lambda one: one.type == BaseCommand.ACK_RESPONSE)
                    assert scene.is_acked("s", last), "what the receipt promises"
                else:
                    wait_until(partial(scene.is_acked, "s", last), REPAIRED_S)
                assert ("sending acks again that the owner ignored" in broker.log_end()) is not receipt
                return
    pytest.skip(
        "on this machine no topic's managed ledger could be stopped while its owner told the bookies of an entry"
    )


class Acks(NamedTuple):
    """How a consumer acks."""

    topic: str
    sub_type: str
    kind: str
    receipt: bool


def acked_early(scene: Scene, client: RawClient, acks: Acks) -> tuple[int, int]:
    """Read and ack everything, the last entry before its owner counts it; return that one."""
    acked = 0

    def ack(position: tuple[int, int]) -> None:
        nonlocal acked
        command = CommandAck(consumer_id=0, ack_type=acks.kind)
        command.message_id.add(ledger_id=position[0], entry_id=position[1])
        if acks.receipt:
            acked += 1
            command.request_id = 1000 + acked
            client.send(BaseCommand(type=BaseCommand.ACK, ack=command))
            with suppress(TimeoutError):  # while the managed ledger's thread is stopped
                client.wait(lambda one: one.type == BaseCommand.ACK_RESPONSE, HELD_S)
        else:
            before = scene.last_acked("s")
            client.send(BaseCommand(type=BaseCommand.ACK, ack=command))
            wait_until(lambda: scene.last_acked("s") != before, 10)

    client.subscribe(
        acks.topic,
        "s",
        sub_type=CommandSubscribe.SubType.Value(acks.sub_type),
        initial_position=CommandSubscribe.Earliest,
    )
    client.flow(1000)
    command, _ = client.wait(lambda one: one.type == BaseCommand.MESSAGE)
    last = (command.message.message_id.ledger_id, command.message.message_id.entry_id)
    ack(last)
    for last in scene.early(client):
        ack(last)
    wait_until(scene.is_idle, 30)
    return last
