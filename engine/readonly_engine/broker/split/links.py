"""The connection between a member and the coordinator of a split subscription: a consumer that relays neither FLOW nor messages.

The member subscribes at the coordinator's broker as for a relayed consumer, with a mark. Its reports are properties of ACKs, and
the coordinator's grants are payloads of MESSAGEs. So TLS, authentication, keep-alive and bounds are those of relayed consumers,
and the member's owner has authorized the subscription twice: here, and at the coordinator's broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from readonly_engine.broker.split.codecs import CODECS
from readonly_engine.owner.consumer import OwnerConsumer
from readonly_engine.wire.commands import encode_command
from readonly_engine.wire.errors import MalformedFrameError
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandAck, CommandMessage, CommandSubscribe, MessageIdData

if TYPE_CHECKING:
    from readonly_engine.broker.split.codecs import Codec
    from readonly_engine.broker.split.machines import AnyGrant, AnyReport
    from readonly_engine.owner.consumer_events import OwnerCursorState
    from readonly_engine.owner.directory import OwnerDirectory
    from readonly_engine.owner.identity import Identity
    from readonly_engine.topic.position import Position

NO_ENTRY: Final = MessageIdData(ledger_id=0, entry_id=0)
"""Position of a MESSAGE with a grant: clients need one."""


class MemberLink(Protocol):
    """The connection of a member, at the coordinator's broker."""

    def grant(self, grant: AnyGrant) -> None:
        """Send a grant."""

    def end(self, why: str) -> None:
        """Close the connection; the member must begin again."""


class LinkEvents(Protocol):
    """Gets the events of a CoordinatorLink."""

    def on_grant(self, link: CoordinatorLink, grant: AnyGrant) -> None:
        """Handle a grant."""

    def on_link_lost(self, link: CoordinatorLink, why: str) -> None:
        """Handle the end of the connection, by the other side."""


class CoordinatorLink:
    """The connection to the coordinator, at a member (ConsumerEvents).

    Args:
        owners: makes connections to brokers of the pool.
        identity: credentials of a client of the subscription.
        subscribe: the SUBSCRIBE with the member's marks.
        peer_url: URL of the coordinator's broker.
        events: gets the events.
    """

    def __init__(
        self, owners: OwnerDirectory, identity: Identity, subscribe: CommandSubscribe, peer_url: str, events: LinkEvents
    ) -> None:
        self._events = events
        self._codec = CODECS[subscribe.sub_type]
        self._consumer = OwnerConsumer(owners, identity, subscribe, self, zero_permit=False, peer_url=peer_url)

    async def open(self) -> None:
        """Connect.

        Raises:
            RelayError: the broker cannot be reached, or does not coordinate the subscription.
        """
        await self._consumer.subscribe()

    def report(self, report: AnyReport) -> None:
        """Send a report."""
        ack = CommandAck(ack_type=CommandAck.Individual)
        ack.properties.add(key=self._codec.encode_report(report), value=0)
        self._consumer.send(BaseCommand(type=BaseCommand.ACK, ack=ack))

    async def close(self) -> None:
        """Close the connection: the member has stopped, or begins again."""
        await self._consumer.close()

    # ConsumerEvents

    def on_owner_command(self, command: BaseCommand, payload: bytes) -> None:
        """Handle a grant; ignore other commands."""
        if command.type != BaseCommand.MESSAGE:
            return
        try:
            grant = self._codec.decode_grant(payload)
        except MalformedFrameError as error:
            self._events.on_link_lost(self, str(error))
            return
        self._events.on_grant(self, grant)

    def on_closed_by_owner(self, reason: str) -> None:
        """Handle the end of the connection."""
        self._events.on_link_lost(self, reason)

    def on_detached(self) -> bool:
        """Ignore it: a consumer with permits does not return by itself."""
        return False

    def on_resubscribed(self, state: OwnerCursorState) -> None:
        """Ignore it, too."""

    def mark_delete_position(self) -> Position | None:
        """Return None: it has no cursor."""
        return None

    def on_owner_dead(self, checked_at: float) -> bool:  # noqa: ARG002
        """Ignore it: the next attempt to connect shows it."""
        return False


def grant_frame(consumer_id: int, grant: AnyGrant, codec: Codec) -> bytes:
    """Return a grant as a frame for a member's consumer, with its length prefix."""
    message = CommandMessage(consumer_id=consumer_id, message_id=NO_ENTRY)
    return encode_command(BaseCommand(type=BaseCommand.MESSAGE, message=message), codec.encode_grant(grant))


def link_subscribe(topic: str, subscription: str, consumer: CommandSubscribe) -> CommandSubscribe:
    """Return a member's SUBSCRIBE to a subscription, without its marks.

    Args:
        topic: the topic.
        subscription: the subscription.
        consumer: the SUBSCRIBE of one of its consumers. The member names the same policy, and the same ranges of hashes.
    """
    link = CommandSubscribe(
        topic=topic, subscription=subscription, sub_type=consumer.sub_type, consumer_id=0, durable=True
    )
    if consumer.HasField("key_shared_meta"):
        link.key_shared_meta.CopyFrom(consumer.key_shared_meta)
    return link
