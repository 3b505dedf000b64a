"""A member of a split Key_Shared subscription: serves its slots of keys, and reports. Pure; time is an argument."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from readonly_engine.broker.dispatch.leased_keys import ConsistentHashRing, LocalSelector
from readonly_engine.broker.split.keys import KeyReport, LocalConsumer
from readonly_engine.broker.split.leases import RENEW_S
from readonly_engine.broker.split.member import ACKS_S, MAX_UNANSWERED

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_engine.broker.dispatch.consumer_state import ConsumerState
    from readonly_engine.broker.dispatch.leased_keys import LeasedKeyDispatcher
    from readonly_engine.broker.split.keys import KeyGrant
    from readonly_engine.broker.split.member import AckReceipt


class KeyMember:
    """What one broker of a split Key_Shared subscription may serve, and what it reports to the coordinator.

    Args:
        name: its name.
        dispatcher: dispatches the entries of its slots.
        receipt: makes a receipt for all acks of the consumers until now.

    Attributes:
        epoch: epoch of the coordinator; 0 before its first grant.
        until: end of the lease.
    """

    def __init__(self, name: str, dispatcher: LeasedKeyDispatcher, receipt: Callable[[], AckReceipt]) -> None:
        self.epoch = 0
        self.until = -math.inf
        self._name = name
        self._dispatcher = dispatcher
        self._make_receipt = receipt
        self._consumers: dict[int, ConsumerState] = {}
        self._last_consumer = 0
        self._slots = 0  # that it may use
        self._gained = 0  # those of them for which the owner's cursor must be read
        self._reading = 0  # those of them for which it is being read
        self._left = 0  # that it must leave, and has not released
        self._drained = 0  # those of them in the receipt
        self._receipt: AckReceipt | None = None
        self._last = 0
        self._sent: dict[int, float] = {}
        self._reported_at = -math.inf
        self._connecting = self._changed = True

    # Consumers

    def add(self, consumer: ConsumerState) -> None:
        """Add a consumer, which gets slots by a later grant."""
        self._last_consumer += 1
        self._consumers[self._last_consumer] = consumer
        self._changed = True

    def remove(self, consumer: ConsumerState) -> None:
        """Remove a consumer. Its slots are served by nobody here until a later grant."""
        self._consumers = {number: one for number, one in self._consumers.items() if one is not consumer}
        self._changed = True

    # The coordinator

    def connected(self) -> None:
        """Handle a new connection to the coordinator: the next report has everything."""
        self._connecting = self._changed = True
        self._sent.clear()

    def forget_coordinator(self) -> bool:
        """Begin anew with another coordinator; return False with slots of the former one: the member must begin again."""
        if self._slots or self._left:
            return False
        self.epoch, self.until = 0, -math.inf
        return True

    def on_grant(self, grant: KeyGrant, now: float) -> bool:
        """Apply a grant.

        Returns:
            False if it does not count: it came after the end of the lease, or is of another coordinator. Then the member must
            begin again.
        """
        if self.expired(now):
            return False
        if self.epoch == 0:
            self.epoch = grant.epoch
        if grant.epoch != self.epoch:
            return False
        sent = self._sent.get(grant.number)
        if sent is not None:
            self._sent = {number: at for number, at in self._sent.items() if number > grant.number}
            self.until = max(self.until, sent + grant.valid_s)
        if now >= self.until:
            return False
        if grant.consumers is not None:
            gained = grant.slots & ~self._slots
            self._left |= self._slots & ~grant.slots
            self._slots = grant.slots
            self._gained = (self._gained & grant.slots) | gained
            self._reading &= grant.slots
            ring = ConsistentHashRing(grant.consumers)
            local = {
                number: self._consumers[one.number]
                for number, one in enumerate(grant.consumers)
                if one.member == self._name and one.number in self._consumers
            }
            self._dispatcher.assign(LocalSelector(ring, local), self._slots & ~self._gained & ~self._reading)
        return True

    def expired(self, now: float) -> bool:
        """Return whether the lease has ended: nothing more may be dispatched."""
        return self.epoch != 0 and now >= self.until

    def report(self, now: float) -> KeyReport | None:
        """Return the next report; None if there is nothing new."""
        since = now - self._reported_at
        if not self._connecting and since < ACKS_S:
            return None
        released = self._take_drained()
        if not (self._connecting or self._changed or released or since >= RENEW_S):
            return None
        self._last += 1
        if len(self._sent) < MAX_UNANSWERED:
            self._sent[self._last] = now
        consumers = None
        if self._changed:
            consumers = tuple(LocalConsumer(number, one.name) for number, one in self._consumers.items())
        held = self._slots | self._left if self._connecting else None
        self._connecting = self._changed = False
        self._reported_at = now
        return KeyReport(self.epoch, self._last, consumers, released, held)

    def _take_drained(self) -> int:
        """Return the slots to leave that have nothing pending, and whose acks the owner has answered; forget them."""
        released = self._take_answered()
        if self._receipt is None:
            self._drained = self._left & ~self._dispatcher.busy if self._left else 0
            if self._drained:
                self._receipt = self._make_receipt()
                released |= self._take_answered()
        return released

    def _take_answered(self) -> int:
        if self._receipt is None or not self._receipt():
            return 0
        released, self._drained, self._receipt = self._drained, 0, None
        self._left &= ~released
        return released

    # The owner's cursor

    @property
    def needs_cursor(self) -> bool:
        """Whether the owner's cursor must be read before gained slots can be served."""
        return bool(self._gained) and not self._reading

    def reading_cursor(self) -> None:
        """Note the begin of a read of the owner's cursor."""
        self._reading, self._gained = self._gained, 0

    def cursor_read(self) -> None:
        """Serve the slots that were gained before the read."""
        slots, self._reading = self._reading, 0
        if slots:
            self._dispatcher.gain(slots)
