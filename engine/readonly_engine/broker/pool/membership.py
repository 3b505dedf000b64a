"""Membership of brokers in a pool, by ephemeral nodes in the metadata store."""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from readonly_engine.config.kinds import MAX_PORT, is_locality
from readonly_engine.config.listeners import DEFAULT, Urls
from readonly_engine.metadata.errors import MetadataUnavailableError, NotAdmittedError
from readonly_engine.metadata.store import Fence

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from readonly_engine.metadata.store import MetadataStore, Versioned, Watch

log = logging.getLogger(__name__)

POOLS_PATH = "/pulsar-readonly/pools"


@dataclass(frozen=True, slots=True)
class Member:
    """A broker of the pool.

    Attributes:
        url: URL for clients, and the broker's name in the pool.
        tls_url: URL for clients with TLS; empty without one.
        consumers: published number of its consumers.
        listeners: URLs for clients of each named listener.
        pool_uid: uid of its pool; None if its version does not publish it.
        locality: `/RACK` or `/ZONE/RACK`; empty if unknown.
        http_port: port of its status page, at the host of `url`; 0 if none is published.
        http_tls: whether that port has TLS.
    """

    url: str
    tls_url: str = ""
    consumers: int = 0
    listeners: Mapping[str, Urls] = field(default_factory=dict, hash=False)
    pool_uid: str | None = None
    locality: str = ""
    http_port: int = 0
    http_tls: bool = False

    def urls_for(self, listener: str) -> Urls:
        """Return the URLs for clients of a listener; empty ones without such a listener."""
        return Urls(self.url, self.tls_url) if listener == DEFAULT else self.listeners.get(listener, Urls())


def encode_member(member: Member) -> bytes:
    """Encode a member for the metadata store, as JSON."""
    fields: dict[str, object] = {"url": member.url, "tls_url": member.tls_url, "consumers": member.consumers}
    if member.pool_uid is not None:
        fields["pool_uid"] = member.pool_uid
    if member.locality:
        fields["locality"] = member.locality
    if member.http_port:
        fields["http_port"] = member.http_port
    if member.http_tls:
        fields["http_tls"] = True
    if member.listeners:
        fields["listeners"] = {name: [urls.url, urls.tls_url] for name, urls in member.listeners.items()}
    return json.dumps(fields).encode()


def decode_member(url: str, value: bytes) -> Member:
    """Decode a member of the metadata store. Unknown or invalid fields, as of other versions, are ignored."""
    try:
        fields = json.loads(value)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        return Member(url)
    tls_url, consumers, uid = fields.get("tls_url"), fields.get("consumers"), fields.get("pool_uid")
    locality, http_port = fields.get("locality"), fields.get("http_port")
    return Member(
        url,
        tls_url if isinstance(tls_url, str) else "",
        consumers if isinstance(consumers, int) and consumers > 0 else 0,
        _listeners_in(fields.get("listeners")),
        uid if isinstance(uid, str) else None,
        locality if isinstance(locality, str) and is_locality(locality) else "",
        http_port if isinstance(http_port, int) and 0 < http_port <= MAX_PORT else 0,
        fields.get("http_tls") is True,
    )


def _listeners_in(value: object) -> Mapping[str, Urls]:
    found = {}
    for name, urls in value.items() if isinstance(value, dict) else ():
        match urls:
            case [str(url), str(tls_url)]:
                found[name] = Urls(url, tls_url)
    return found


class PoolMembership:
    """Membership of this broker in its pool.

    A member is an ephemeral node with the broker's URL as its name, and the other fields as its value.

    Args:
        store: the metadata store.
        name: name of the pool.
        url: URL of this broker for clients.
        tls_url: URL for clients with TLS; empty without one.
        listeners: URLs for clients of named listeners.
        uid: uid of the pool. Only one pool of a name may have live brokers; the uid distinguishes pools of the same name. Empty
            if names are unique.
        on_rejected: called when another pool has taken the name while this broker had no session.
        locality: locality of this broker; empty if unknown.
        http_port: port of its status page for people; 0 to publish none.
        http_tls: whether that port has TLS.

    Attributes:
        url: as above.
        name: as above.
        identity: name of the pool, with `@` and the uid if it has one.
        uid: as above.
        members: the members by URL.
        folder: path of the pool in the metadata store.
    """

    def __init__(
        self,
        store: MetadataStore,
        name: str,
        url: str,
        tls_url: str = "",
        listeners: Mapping[str, Urls] | None = None,
        uid: str = "",
        on_rejected: Callable[[NotAdmittedError], None] = lambda _: None,
        locality: str = "",
        http_port: int = 0,
        http_tls: bool = False,
    ) -> None:
        self.url = url
        self.name = name
        self.identity = f"{name}@{uid}" if uid else name
        self.uid = self._uid = uid
        self._on_rejected = on_rejected
        self.members: dict[str, Member] = {}
        self._store = store
        self._own = Member(
            url,
            tls_url,
            pool_uid=uid,
            listeners=listeners or {},
            locality=locality,
            http_port=http_port,
            http_tls=http_tls,
        )
        self._published = self._own
        self.folder = f"{POOLS_PATH}/{quote(name, safe='')}"
        self._folder = f"{self.folder}/brokers"
        self._watch: Watch | None = None
        self._member_watches: dict[str, Watch] = {}
        self._left = False
        self._members_known: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def join(self) -> None:
        """Join the pool and follow its members.

        Raises:
            NotAdmittedError: another pool of this name has live brokers.
            MetadataUnavailableError: the store does not answer.
        """
        self._published = self._own
        await self._store.register(self._node(self.url), encode_member(self._published), self._admit)
        self._watch = self._store.watch_children(self._folder, self._members_changed)
        try:
            await asyncio.wait_for(asyncio.shield(self._members_known), 10)
        except TimeoutError as error:
            raise MetadataUnavailableError(f"the brokers of {self._folder} are not known after 10 s") from error

    async def check_admitted(self) -> None:
        """Check that this broker may join now.

        Raises:
            NotAdmittedError: another pool of this name has live brokers.
            MetadataUnavailableError: the store does not answer.
        """
        await self._admit()

    async def _admit(self) -> Fence:
        """Check that no other pool of this name has live brokers; return the fence for the registration.

        The version of the identity node changes with each broker that joins, so a check with outdated members fails.

        Raises:
            NotAdmittedError: another pool of this name has live brokers.
            MetadataUnavailableError: the store does not answer.
        """
        path, identity = f"{self.folder}/identity", json.dumps({"uid": self._uid}).encode()
        found = await self._store.get(path)
        if found is None or found.value != identity:
            for name in sorted(await self._store.children(self._folder) or ()):
                node = await self._store.get(f"{self._folder}/{name}")
                member = None if node is None else decode_member(unquote(name), node.value)
                if member is not None and member.pool_uid not in {None, self._uid}:
                    error = NotAdmittedError(
                        f"pool {self.name} (uid {self._uid or 'none'}): another pool of this name (uid "
                        f"{member.pool_uid or 'none'}) has a live broker on this metadata store, {member.url}; "
                        "give one of them another name, or the same pool-uid if they are to be one pool"
                    )
                    self._on_rejected(error)
                    raise error
        return Fence(path, identity, None if found is None else found.version)

    async def leave(self) -> None:
        """Leave the pool, so that lookups do not return this broker."""
        self._left = True
        self._drop(self.url)
        try:
            await self._store.unregister(self._node(self.url))
        except MetadataUnavailableError as error:
            log.warning("leaving the pool failed: error=%s", error)

    def close(self) -> None:
        """Stop following the members."""
        if self._watch is not None:
            self._watch.stop()
        for watch in self._member_watches.values():
            watch.stop()

    async def publish(self, consumers: int) -> None:
        """Publish this broker's number of consumers, and its locality if it has changed, to the other members."""
        own = self._own = replace(self._own, consumers=consumers)
        if self._left or own == self._published:
            return
        try:
            await self._store.update(self._node(self.url), encode_member(own))
        except MetadataUnavailableError as error:
            log.debug("publishing the load failed: error=%s", error)
        else:
            self._published = own

    def move(self, locality: str) -> None:
        """Set the locality of this broker; `publish` tells the other members."""
        self._own = replace(self._own, locality=locality)

    @property
    def locality(self) -> str:
        """Locality of this broker; empty if unknown."""
        return self._own.locality

    @property
    def neighbours(self) -> list[Member]:
        """The members with this broker's locality, this broker included if it is a member."""
        return [one for one in self.members.values() if one.url == self.url or one.locality == self.locality]

    @property
    def joined(self) -> bool:
        """Whether this broker is a member."""
        return self.url in self.members

    def _node(self, url: str) -> str:
        return f"{self._folder}/{quote(url, safe='')}"

    def _members_changed(self, names: frozenset[str]) -> None:
        urls = {unquote(name) for name in names}
        if self._left:
            urls.discard(self.url)
        if urls != set(self.members):
            log.info("pool members changed: members=%s", ", ".join(sorted(urls)) or "none")
        for url in set(self.members) - urls:
            self._drop(url)
        for url in urls - set(self.members):
            self.members[url] = self._own if url == self.url else Member(url)
            self._member_watches[url] = self._store.watch(self._node(url), partial(self._member_changed, url))
        if not self._members_known.done():
            self._members_known.set_result(None)

    def _member_changed(self, url: str, found: Versioned | None) -> None:
        if found is not None and url in self.members:
            self.members[url] = decode_member(url, found.value)

    def _drop(self, url: str) -> None:
        self.members.pop(url, None)
        watch = self._member_watches.pop(url, None)
        if watch is not None:
            watch.stop()
