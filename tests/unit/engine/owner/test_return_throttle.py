"""Consumers of a lost owner on their way to its successor: how many at a time, and how often."""

import asyncio

import pytest
from readonly_engine.owner import connection, return_throttle
from readonly_engine.owner.consumer import OwnerConsumer
from readonly_engine.owner.directory import OwnerDirectory
from readonly_engine.owner.errors import OwnerUnavailableError
from readonly_engine.owner.identity import Identity
from readonly_engine.owner.return_throttle import (
    BACKOFF_S,
    MAX_RETURNING,
    PROOF_S,
    STALE_S,
    ReturnBackoff,
    ReturnThrottle,
)

from tests.support.waiting import until
from tests.unit.engine.owner.played_owner import Events, Owner, answered, owner_url, settle, subscribe


@pytest.mark.parametrize("longest", [2.0, BACKOFF_S[1]])
def test_attempts_that_fail_together_double_the_pause_once(longest):
    backoff, now, pauses = ReturnBackoff(), 100.0, []
    for _ in range(8):
        (pause,) = {backoff.failed(now + attempt / 10_000, longest) for attempt in range(MAX_RETURNING)}
        pauses.append(pause)
        now += pause + 0.1
    first, last = BACKOFF_S[0], longest
    assert pauses == pytest.approx([min(first * 2**doubled, last) for doubled in range(8)])
    backoff.succeeded()
    assert [backoff.failed(now), backoff.failed(now + 1), backoff.failed(now + 2 + STALE_S)] == [
        first,
        2 * first,
        first,
    ]


async def test_of_the_consumers_of_a_lost_owner_few_look_for_its_successor_at_a_time(golden, monkeypatch):
    monkeypatch.setattr(return_throttle, "MAX_RETURNING", 3)
    owners = OwnerDirectory(owner_url(golden))
    owner = Owner(owners, golden)
    consumers = []
    for number in range(10):
        command = subscribe()
        command.topic += str(number)
        events = Events()
        consumers.append(OwnerConsumer(owners, Identity(), command, events, zero_permit=True))
        events.consumer = consumers[-1]
        subscribing = asyncio.create_task(consumers[-1].subscribe())
        await answered(owner, subscribing)
        await subscribing
    owner.lose()
    successor = Owner(owners, golden)
    successor.next()
    returned, rounds = [], []
    for _ in range(40):
        await settle()
        asked = successor.next()
        rounds.append(len([name for name, _ in asked if name == "LOOKUP"]))
        for name, body in asked:
            successor.answer(
                {
                    "LOOKUP": "broker_lookup_response",
                    "SUBSCRIBE": "broker_success",
                    "GET_LAST_MESSAGE_ID": "broker_get_last_message_id_response",
                }[name],
                body.request_id,
            )
            returned += [body.topic] if name == "SUBSCRIBE" else []
    assert max(rounds) == 3
    assert returned == [f"{subscribe().topic}{number}" for number in range(10)], "in their order"
    assert all(consumer.subscribed for consumer in consumers)
    assert not owners._returns, "nothing is kept"


class Handler:
    def __init__(self, heard, error=None):
        self.heard, self.error = heard, error

    def on_connection_lost(self):
        self.heard.append(self)
        if self.error is not None:
            raise self.error


async def test_the_end_of_a_connection_reaches_very_many_in_slices(golden, monkeypatch, caplog):
    monkeypatch.setattr(connection, "SLICE_S", 0.0)
    owner, heard = Owner(OwnerDirectory(owner_url(golden)), golden), []
    handlers = [Handler(heard, RuntimeError("unexpected") if number == 1 else None) for number in range(4)]
    for handler in handlers:
        owner.connection.add_consumer(handler)
    owner.lose()
    assert heard == handlers[:1]
    await asyncio.sleep(0)
    assert len(heard) < len(handlers)
    await settle()
    assert heard == handlers
    assert caplog.text.count("RuntimeError: unexpected") == 1


class Leaseholder:
    def __init__(self, delivers):
        self.delivers, self.proofs = delivers, []

    def on_owner_dead(self, checked_at):
        self.proofs.append(checked_at)
        return self.delivers


async def test_one_refused_connection_proves_the_death_of_the_owner_for_all(monkeypatch):
    monkeypatch.setattr(return_throttle, "MAX_LOOKS", 5)
    monkeypatch.setattr(return_throttle, "MAX_PROVED", 2)
    throttle = ReturnThrottle()
    holders = [Leaseholder(delivers=number in {1, 3, 4}) for number in range(7)]
    throttle.leaseholders.update(dict.fromkeys(holders))
    for now in (100.0, 100.0 + PROOF_S / 2, 100.0 + PROOF_S):
        throttle.owner_dead(now)
    twice = [100.0, 100.0 + PROOF_S]
    assert [one.proofs for one in holders] == [twice] * 4 + [[]] * 3, "two that deliver are enough"
    for one in holders[:4]:
        del throttle.leaseholders[one]
    throttle.owner_dead(200.0)
    assert [one.proofs for one in holders[4:]] == [[200.0]] * 3


async def test_a_consumer_hears_that_its_owner_is_dead_while_it_waits_for_its_turn(golden, monkeypatch):
    monkeypatch.setattr(return_throttle, "MAX_RETURNING", 1)
    owners = OwnerDirectory(owner_url(golden))
    owner, heard = Owner(owners, golden), []
    for number in range(3):
        command, events = subscribe(), Events()
        command.topic += str(number)
        events.consumer = OwnerConsumer(owners, Identity(), command, events, zero_permit=True)
        subscribing = asyncio.create_task(events.consumer.subscribe())
        await answered(owner, subscribing)
        await subscribing
        heard.append(events)

    async def refuse(*_):
        raise OwnerUnavailableError("refused", refused=owner_url(golden))

    monkeypatch.setattr(owners, "_dial", refuse)
    monkeypatch.setattr(owners.session(Identity()), "_dial", refuse)
    owner.lose()
    await until(lambda: all(len(events.dead) == 1 for events in heard))
    for events in heard:
        await events.consumer.close()
