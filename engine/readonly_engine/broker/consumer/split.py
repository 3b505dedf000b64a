"""Consumers of split subscriptions: those of clients, and the connections of other brokers to the coordinator here."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from readonly_engine.broker.consumer.client_consumer import ClientConsumer
from readonly_engine.broker.consumer.relay_marks import mark_member
from readonly_engine.broker.consumer.served import OwnerKeptConsumer
from readonly_engine.broker.consumer.stats import ConsumerFigures
from readonly_engine.broker.cursors.local_consumer import LocalCursorConsumer
from readonly_engine.broker.cursors.local_requests import LocalRequest
from readonly_engine.broker.passthrough.pool_metadata import add_pool_metadata
from readonly_engine.broker.pool.claims import ClaimKey
from readonly_engine.broker.split.codec import VERSION
from readonly_engine.broker.split.codecs import CODECS
from readonly_engine.broker.split.keys import KeyPolicy
from readonly_engine.broker.split.links import CoordinatorLink, grant_frame, link_subscribe
from readonly_engine.broker.split.runner import SINGLE_S
from readonly_engine.broker.split.subscription import SplitSubscription
from readonly_engine.owner.consumer import OwnerConsumer
from readonly_engine.owner.errors import OwnerRefusedError, OwnerUnavailableError
from readonly_engine.wire.errors import MalformedFrameError
from readonly_engine.wire.pulsar_pb2 import ServerError

if TYPE_CHECKING:
    from readonly_engine.broker.consumer.client_link import ClientLink
    from readonly_engine.broker.consumer.route import Placement
    from readonly_engine.broker.consumer.served import ServedConsumer
    from readonly_engine.broker.consumer.services import Services
    from readonly_engine.broker.cursors.partition import CursorPartition
    from readonly_engine.broker.pool.claim_store import ClaimHandle
    from readonly_engine.broker.split.machines import AnyGrant
    from readonly_engine.broker.split.runner import SplitRunner
    from readonly_engine.broker.subscription.subscriber import Subscriber
    from readonly_engine.broker.subscription.subscription import Subscription
    from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandConsumerStatsResponse, CommandSubscribe


HOLDER_VERSION: Final = f"{VERSION}-local"
"""Version of a member whose coordinator holds the cursor. A broker that leases no such subscription refuses it as unknown."""


class IndivisibleError(OwnerUnavailableError):
    """One broker must serve the subscription, as has just been found: the next admission lets it."""


class SplitConsumer(OwnerKeptConsumer):
    """A client's consumer of a split subscription. It has no claim: the coordinator has that of the subscription."""

    __slots__ = ()

    split: ClassVar[bool] = True

    async def begin(self, sent: float) -> None:
        """Join the subscription on this broker, as ServedConsumer."""
        await join_split(self, None, sent)

    def _exclusively_served(self, subscription: Subscription, claim: ClaimHandle | None) -> bool:  # noqa: ARG002
        """Return False: other brokers may have served it."""
        return False


async def join_split(consumer: ServedConsumer, holder: str | None, sent: float) -> None:
    """Join the split subscription of a consumer on this broker.

    Args:
        consumer: the consumer.
        holder: URL of the broker of the pool that holds the cursor; empty for this one, None if the owner has it.
        sent: as in ServedConsumer.begin.

    Raises:
        RelayError: as there.
        MetadataError: as there.
    """
    services, key = consumer.connection.services, ClaimKey(consumer.topic, consumer.info.name)
    make = partial(services.splits.make, key, holder)
    policy = KeyPolicy.of(consumer.subscribe_command)
    check = partial(_check_split, services, key, consumer.info.kind, policy, holder)
    subscription = await services.topics.join(consumer.topic, consumer, check, make)
    consumer.on_joined(subscription, sent)
    if isinstance(subscription, SplitSubscription):
        await subscription.runner.wait_placed(consumer.dispatch_state)
    if consumer.unregistered:
        raise OwnerUnavailableError(f"{key.subscription} of {key.topic} has begun again on this broker; try again")


def _check_split(
    services: Services,
    key: ClaimKey,
    kind: CommandSubscribe.SubType,
    policy: KeyPolicy,
    holder: str | None,
    subscription: Subscription,
) -> None:
    """Check that a consumer may join a subscription as one of a split one.

    Raises:
        IndivisibleError: one broker must serve it.
        OwnerUnavailableError: one broker serves it, or consumers of another type or holder; the client must try again.
    """
    if not isinstance(subscription, SplitSubscription):
        raise OwnerUnavailableError(f"the last consumers of {key.subscription} alone on this broker leave; try again")
    if subscription.kind != kind:
        raise OwnerUnavailableError(f"the last consumers of {key.subscription} of another type leave; try again")
    if subscription.policy != policy:
        raise OwnerUnavailableError(f"the last consumers of {key.subscription} with another policy leave; try again")
    if subscription.holder != holder:
        raise OwnerUnavailableError(f"the last consumers of {key.subscription} with its former cursor leave; try again")
    if subscription.runner.ending:
        raise OwnerUnavailableError(f"{key.subscription} of {key.topic} begins again on this broker; try again")
    if subscription.indivisible:
        services.splits.serve_alone(key, SINGLE_S, "it has acks in transactions, or partly acked batches")
        raise IndivisibleError(f"one broker must serve {key.subscription} of {key.topic}; try again")


class MemberConsumer(ClientConsumer):
    """The connection of another broker's member to the coordinator here (MemberLink).

    The owner has authorized it: it gets a consumer where the cursor is kept, which is closed at once. With ranges of hashes
    (STICKY) the owner authorizes it, and then refuses it, since a consumer of the member has them. So it keeps no other out.

    Args:
        connection: the other broker's connection, with the credentials of one of its clients.
        placement: as in ClientConsumer.
        subscribe: the member's SUBSCRIBE.
        name: the member.
        partition: the partition with the cursor, if this broker keeps it.
    """

    __slots__ = ("_link", "_name", "_runner")

    subscription = None

    def __init__(
        self,
        connection: ClientLink,
        placement: Placement,
        subscribe: CommandSubscribe,
        name: str,
        partition: CursorPartition | None = None,
    ) -> None:
        super().__init__(connection, placement, None, subscribe.consumer_id, exclusive=False)
        self._name = name
        self._link = subscribe
        self._runner: SplitRunner | None = None
        services = connection.services
        asked = link_subscribe(str(self.topic), self.info.name, subscribe)
        add_pool_metadata(asked, services.passthrough.pool)
        if partition is not None:
            asked.metadata.add(key=LocalRequest.EXISTING.value, value="true")
            self.owner_consumer = LocalCursorConsumer(partition, self.topic, connection.identity, asked, self)
        else:
            self.owner_consumer = OwnerConsumer(services.owners, connection.identity, asked, self, zero_permit=True)

    @property
    def consumer_name(self) -> str:
        """Name of the member."""
        return self._name

    @property
    def served_by(self) -> str:
        """This broker."""
        return ""

    @property
    def movable(self) -> bool:
        """Whether another broker can serve it: the coordinator is here."""
        return False

    def misplaced(self, *, keeps_cursor: bool) -> str:  # noqa: ARG002
        """Return an empty text: it ends with the coordinator."""
        return ""

    def figures(self) -> ConsumerFigures:
        """Return the figures of a consumer without messages."""
        return ConsumerFigures("", 0, 0, False, 0, 0)

    def complete_stats(self, answer: CommandConsumerStatsResponse) -> None:
        """Leave the answer as it is."""

    async def begin(self, sent: float) -> None:  # noqa: ARG002
        """Connect the member.

        Raises:
            RelayError: the coordinator is not here, or not any more.
        """
        await self.owner_consumer.close()

    def on_answered(self) -> None:
        """Connect the member, which has the answer and sends its first report."""
        try:
            key = ClaimKey(self.topic, self.info.name)
            runner = self.connection.services.splits.coordinator(key, self._name, self._link)
        except (OwnerRefusedError, OwnerUnavailableError) as error:
            self.end(str(error))
            return
        self._runner = runner
        if not runner.join(self._name, self):
            self.end("there are too many members")

    def stop_delivery(self) -> None:
        """Do nothing: it gets no messages."""

    async def detach(self) -> None:
        """Stay: this broker drains, and its coordinator tells the member first."""

    async def close(self, command: BaseCommand | None = None) -> BaseCommand | None:
        """Disconnect the member, in order if it has sent a CLOSE_CONSUMER."""
        if self._runner is not None:
            self._runner.left(self._name, self, stopped=command is not None)
        return await super().close()

    # MemberLink

    def grant(self, grant: AnyGrant) -> None:
        """Send a grant."""
        self.connection.send(grant_frame(self.consumer_id, grant, CODECS[self.info.kind]))

    def end(self, why: str) -> None:
        """Close the connection; the member must begin again."""
        if not self.unregistered:
            self.close_for_resubscribe(why)

    # Commands

    def flow(self, command: BaseCommand) -> None:
        """Ignore it: a member reports what it can take."""

    def ack(self, command: BaseCommand) -> None:
        """Handle a report.

        Raises:
            MalformedFrameError: it is none.
        """
        if len(command.ack.properties) != 1 or command.ack.message_id:
            raise MalformedFrameError("ACK of a member of a split subscription: not a report alone")
        report = CODECS[self.info.kind].decode_report(command.ack.properties[0].key)
        if self._runner is not None:
            self._runner.reported(self._name, self, report)

    def redeliver(self, command: BaseCommand) -> None:
        """Ignore it, too."""

    def on_writable_changed(self, *, writable: bool) -> None:
        """Ignore it: grants are few, and answer reports."""

    def on_owner_command(self, command: BaseCommand, payload: bytes) -> None:
        """Ignore the owner's commands."""

    def on_closed_by_owner(self, reason: str) -> None:
        """Ignore it: its consumer on the owner was for the authorization only."""


def check_member(version: str, kind: CommandSubscribe.SubType) -> None:
    """Check that a member speaks this broker's version of reports and grants, and of a type that can be split.

    Raises:
        OwnerRefusedError: it does not.
    """
    why = ""
    if version not in {str(VERSION), HOLDER_VERSION}:
        why = f"version {version!r} of the leases of split subscriptions, this broker has {VERSION}"
    elif kind not in CODECS:
        why = f"a member of a split subscription of type {kind}, only Shared and Key_Shared are split"
    if why:
        raise OwnerRefusedError(ServerError.NotAllowedError, why)


def connect_to_coordinator(services: Services, consumer: Subscriber, url: str, runner: SplitRunner) -> CoordinatorLink:
    """Make a connection to the coordinator of a split subscription.

    Args:
        services: the shared parts of the broker.
        consumer: a consumer of the subscription, whose credentials the connection has.
        url: URL of the coordinator's broker.
        runner: gets the events.

    Raises:
        RelayError: the pool requires TLS, and that broker has none.
    """
    assert isinstance(consumer, ClientConsumer)
    member = services.pool.members.get(url)
    peer_url = services.owners.peer_url(url, "" if member is None else member.tls_url)
    subscribe = link_subscribe(str(consumer.topic), consumer.info.name, consumer.subscribe_command)
    mark_member(subscribe, services.pool.url, HOLDER_VERSION if consumer.holder else str(VERSION))
    return CoordinatorLink(services.owners, consumer.connection.identity, subscribe, peer_url, runner)
