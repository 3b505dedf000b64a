"""A consumer that records every step: it uses the raw protocol, and asks for ack receipts."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

from readonly_engine.wire.batch import decode_stored_entry, unpack
from readonly_engine.wire.pulsar_pb2 import (
    BaseCommand,
    CommandAck,
    CommandCloseConsumer,
    CommandFlow,
    CommandRedeliverUnacknowledgedMessages,
    CommandSeek,
    CommandSubscribe,
    IntRange,
    KeySharedMeta,
    KeySharedMode,
    MessageIdData,
)

from longtests.churn.history import Id, Kind
from longtests.churn.link import STEADFAST, LinkError, Patience, RawConnection, find
from longtests.churn.plan import Keys

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from longtests.churn.history import History
    from longtests.churn.plan import SubscriptionPlan

PERMITS: Final = 40
"""Permits of a consumer: few, so that all consumers of a subscription get messages."""

PAUSES_S: Final = (0.05, 1.0)
"""Pause between two attempts to subscribe, in seconds."""

NACKED: Final = 0.02
"""One in this many entries is returned for redelivery."""

HELD: Final = 0.3
"""One in this many entries is acked after a delay."""

HELD_S: Final = 0.5

HALF: Final = 1 << 15
"""Half of all hashes of keys."""

_Entry = tuple[Id, ...]


def _key_shared(keys: Keys, number: int) -> KeySharedMeta | None:
    """Return the metadata of a consumer; None for the defaults."""
    if keys is Keys.AUTO_SPLIT:
        return None
    if keys is Keys.ANY_ORDER:
        return KeySharedMeta(key_shared_mode=KeySharedMode.AUTO_SPLIT, allow_out_of_order_delivery=True)
    start = number % 2 * HALF
    return KeySharedMeta(
        key_shared_mode=KeySharedMode.STICKY, hash_ranges=[IntRange(start=start, end=start + HALF - 1)]
    )


class Consumer:
    """One consumer, which subscribes again until it is closed.

    Args:
        history: receives its events.
        plan: its subscription.
        number: number of the consumer in its subscription.
        topic: the topic's name.
        urls: the present brokers for lookups.
        rng: decides its actions on messages.
        patience: its timeouts.
        name: its name in the subscription; default: from its number.
    """

    def __init__(
        self,
        history: History,
        plan: SubscriptionPlan,
        number: int,
        topic: str,
        urls: Callable[[], list[str]],
        rng: random.Random,
        patience: Patience = STEADFAST,
        name: str = "",
    ) -> None:
        self._patience = patience
        self.plan = plan
        self.number = number
        self.steady = False
        self._history = history
        self._topic = topic
        self._urls = urls
        self._rng = rng
        self._name = name or f"c{number}"
        self._sessions = 0
        self._session = ""
        self._link: RawConnection | None = None
        self._assigned = ""
        self._over = asyncio.Event()
        self._closing = False
        self._active: bool | None = None
        self._epoch = 0
        self._used = 0
        self._held: dict[_Entry, asyncio.TimerHandle | None] = {}
        self._task = asyncio.create_task(self._run())

    @property
    def open(self) -> bool:
        """Return whether it is subscribed now."""
        return bool(self._session)

    async def close(self) -> None:
        """Close the consumer."""
        link = self._stop()
        if link is not None and not link.closed:
            close = CommandCloseConsumer(consumer_id=0)
            with contextlib.suppress(LinkError):
                await link.request(BaseCommand(type=BaseCommand.CLOSE_CONSUMER, close_consumer=close))
            link.close()
        await self._ended()

    async def drop(self) -> None:
        """Disconnect without CLOSE_CONSUMER."""
        link = self._stop()
        if link is not None:
            link.abort()
        await self._ended()

    async def seek(self, position: Id) -> bool:
        """Seek, as the only consumer of the subscription; return whether it succeeded. This ends the session."""
        link = self._link
        if link is None or not self._session:
            return False
        self._finish("seek")
        self._history.add(Kind.SEEKING, self.plan.name, ids=[position])
        message_id = MessageIdData(ledger_id=position.ledger, entry_id=position.entry)
        try:
            await link.request(
                BaseCommand(type=BaseCommand.SEEK, seek=CommandSeek(consumer_id=0, message_id=message_id))
            )
        except LinkError as error:
            self._history.add(Kind.NOTE, self.plan.name, text=f"seek: {error}")
            return False
        else:
            self._history.add(Kind.SOUGHT, self.plan.name, ids=[position])
            return True
        finally:
            link.close()
            self._over.set()

    def settle(self) -> None:
        """Ack every message at once from now on."""
        self.steady = True
        for entry in list(self._held):
            self._ack(entry)

    # Subscribing

    async def _run(self) -> None:
        pause = PAUSES_S[0]
        while not self._closing:
            try:
                await self._subscribe()
            except LinkError as error:
                self._history.add(Kind.NOTE, self.plan.name, text=f"{self._name}: {error}")
                await asyncio.sleep(pause)
                pause = min(2 * pause, PAUSES_S[1])
                continue
            pause = PAUSES_S[0]
            await self._over.wait()

    async def _subscribe(self) -> None:
        urls = list(self._urls())
        self._rng.shuffle(urls)
        assigned, self._assigned = self._assigned, ""
        url = assigned or await find(urls, self._topic, self._patience)
        link = await RawConnection.open(url, self._received, self._lost, self._patience)
        self._over.clear()
        self._active = None
        self._epoch = self._used = 0
        subscribe = CommandSubscribe(
            topic=self._topic,
            subscription=self.plan.name.rpartition("/")[2],
            sub_type=CommandSubscribe.SubType.Value(self.plan.type),
            consumer_id=0,
            consumer_name=self._name,
            initial_position=CommandSubscribe.Earliest,
            consumer_epoch=0,
            key_shared_meta=_key_shared(self.plan.keys, self.number),
        )
        try:
            await link.request(BaseCommand(type=BaseCommand.SUBSCRIBE, subscribe=subscribe))
        except BaseException:
            link.abort()
            raise
        if self._closing or link.closed:
            link.close()
            raise LinkError("closed before it was subscribed")
        self._link = link
        self._sessions += 1
        self._session = f"{self.plan.name} {self._name}.{self._sessions}"
        self._history.add(Kind.OPENED, self.plan.name, self._session, text=url)
        self._tell_active()
        self._flow(PERMITS)

    def _stop(self) -> RawConnection | None:
        self._closing = True
        link = self._link
        self._finish("closed by the client")
        self._over.set()
        return link

    async def _ended(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if self._link is not None:
            self._link.abort()

    def _finish(self, why: str) -> None:
        """Record the end of the session, as the client knows it."""
        for timer in self._held.values():
            if timer is not None:
                timer.cancel()
        self._held.clear()
        if self._session:
            self._history.add(Kind.ENDED, self.plan.name, self._session, text=why)
            self._session = ""

    # Commands of the broker

    def _lost(self) -> None:
        self._finish("the connection ended")
        self._over.set()

    def _received(self, command: BaseCommand, payload: bytes) -> None:
        if command.type == BaseCommand.MESSAGE:
            self._message(command, payload)
        elif command.type == BaseCommand.CLOSE_CONSUMER and self._session:  # it also precedes the answer to a SEEK
            self._assigned = str(command.close_consumer.assigned_broker_service_url)
            self._finish(f"closed by the broker {self._assigned}")
            if self._link is not None:
                self._link.close()
            self._over.set()
        elif command.type == BaseCommand.ACTIVE_CONSUMER_CHANGE:
            self._active = command.active_consumer_change.is_active
            self._tell_active()

    def _tell_active(self) -> None:
        """Record the role that the broker assigned; its command may precede the answer to the SUBSCRIBE."""
        if self._session and self._active is not None:
            self._history.add(Kind.ACTIVE, self.plan.name, self._session, number=int(self._active))

    def _message(self, command: BaseCommand, payload: bytes) -> None:
        message = command.message
        where = message.message_id
        stored = decode_stored_entry(payload)
        entry = tuple(Id(where.ledger_id, where.entry_id, message.batch_index) for message in unpack(stored))
        self._used += len(entry)
        if self._used >= PERMITS // 2:
            self._flow(self._used)
            self._used = 0
        epoch = message.consumer_epoch if message.HasField("consumer_epoch") else 0
        if not self._session or epoch < self._epoch:
            return
        self._history.add(
            Kind.DELIVERED, self.plan.name, self._session, entry, number=self._epoch, text=f"{message.redelivery_count}"
        )
        self._decide(entry)

    # Actions of the client

    def _flow(self, permits: int) -> None:
        if self._link is not None:
            flow = CommandFlow(consumer_id=0, message_permits=permits)
            self._link.send(BaseCommand(type=BaseCommand.FLOW, flow=flow))

    def _decide(self, entry: _Entry) -> None:
        loop = asyncio.get_running_loop()
        chance = self._rng.random()
        if self.steady:
            self._held[entry] = None
            self._ack(entry)
        elif chance < NACKED:
            self._held[entry] = loop.call_later(self._rng.random() * HELD_S, self._nack, entry)
        elif chance < NACKED + HELD or (self.plan.cumulative and chance < 0.8):
            # A later cumulative ack includes it.
            self._held[entry] = loop.call_later(self._rng.random() * HELD_S, self._ack, entry)
        else:
            self._held[entry] = None
            self._ack(entry)

    def _ack(self, entry: _Entry) -> None:
        if entry not in self._held or self._link is None:
            return
        acked = [held for held in self._held if held <= entry] if self.plan.cumulative else [entry]
        for held in acked:
            timer = self._held.pop(held)
            if timer is not None:
                timer.cancel()
        kind = CommandAck.Cumulative if self.plan.cumulative else CommandAck.Individual
        ids = [id_ for held in sorted(acked) for id_ in held]
        ack = CommandAck(consumer_id=0, ack_type=kind)
        ack.message_id.add(ledger_id=entry[0].ledger, entry_id=entry[0].entry)
        session = self._session
        self._history.add(Kind.ACKING, self.plan.name, session, ids)
        answer = self._link.ask(BaseCommand(type=BaseCommand.ACK, ack=ack))

        def answered(future: asyncio.Future[BaseCommand]) -> None:
            if future.cancelled() or future.exception() is not None:
                return
            response = future.result()
            if response.type == BaseCommand.ACK_RESPONSE and not response.ack_response.HasField("error"):
                self._history.add(Kind.ACKED, self.plan.name, session, ids, number=int(self.plan.cumulative))
            else:
                self._history.add(Kind.NOTE, self.plan.name, session, ids, text=f"ack: {response}")

        answer.add_done_callback(answered)

    def _nack(self, entry: _Entry) -> None:
        """Return one entry (shared types), or all unacked messages; the broker then redelivers under a new epoch."""
        if entry not in self._held or self._link is None:
            return
        redeliver = CommandRedeliverUnacknowledgedMessages(consumer_id=0)
        if self.plan.type in {"Shared", "Key_Shared"}:
            given = [entry]
            redeliver.message_id.add(ledger_id=entry[0].ledger, entry_id=entry[0].entry)
        else:
            given = list(self._held)
            self._epoch += 1
            redeliver.consumer_epoch = self._epoch
        for held in given:
            timer = self._held.pop(held)
            if timer is not None:
                timer.cancel()
        self._history.add(Kind.NACKED, self.plan.name, self._session, [id_ for held in given for id_ in held])
        command = BaseCommand(type=BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES)
        command.redeliver_unacknowledged_messages.CopyFrom(redeliver)
        self._link.send(command)
