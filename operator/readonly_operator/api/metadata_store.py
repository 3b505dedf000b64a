"""URLs of metadata stores in specs, as metadataStoreUrl of Pulsar's broker.conf has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from readonly_engine.metadata.url import STORES, StoreKind

from readonly_operator.api.schema import Rule, Text
from readonly_operator.api.values import HOST, PORT, qualified

if TYPE_CHECKING:
    from readonly_engine.metadata.url import StoreForm


def _form(store: StoreForm) -> str:
    return f"{store.scheme}HOST:PORT{'[,HOST:PORT]' if store.several else ''}[/{store.root.upper()}]"


def _pattern(store: StoreForm) -> str:
    more = f"(,{HOST}:{PORT})*" if store.several else ""
    return rf"{store.scheme}{HOST}:{PORT}{more}(/[A-Za-z0-9._{'/' if store.nested else ''}-]*)?"


FORM = " or ".join(map(_form, STORES.values()))
"""The forms of URLs in specs."""

_PATTERN = f"({'|'.join(map(_pattern, STORES.values()))})"
_EXAMPLE = "for example zk:pulsar-zookeeper.pulsar:2181"

METADATA_STORE_URL = Text(
    512,
    _PATTERN,
    f"must be {FORM}, {_EXAMPLE}",
    (
        Rule(
            "self == oldSelf || (oldSelf.startsWith('zk:') && self.startsWith('oxia://'))"
            " || (self.startsWith('zk:') && oldSelf.startsWith('zk:')"
            " && self.substring(3).split('/', 2)[0].split(',').exists(host, "
            "host in oldSelf.substring(3).split('/', 2)[0].split(','))"
            " && self.substring(3).split('/', 2).size() == oldSelf.substring(3).split('/', 2).size()"
            " && (self.substring(3).split('/', 2).size() == 1"
            " || self.substring(3).split('/', 2)[1] == oldSelf.substring(3).split('/', 2)[1]))",
            "must keep at least one host and the chroot, for it says which cluster the pool serves; after a migration it may "
            "become oxia://; make a new pool for another cluster",
        ),
    ),
)

BOOKKEEPER_METADATA_STORE_URL = Text(512, _PATTERN, f"must be {FORM}, {_EXAMPLE}")


class StoreUrl(NamedTuple):
    """The URL of a metadata store.

    Attributes:
        kind: its kind.
        hosts: HOST:PORT of its servers.
        root: chroot of ZooKeeper, namespace of Oxia.
    """

    kind: StoreKind
    hosts: tuple[str, ...]
    root: str

    @classmethod
    def parse(cls, url: str) -> StoreUrl:
        """Parse a URL that matches the pattern."""
        kind, _, rest = url.partition(":")
        hosts, _, root = rest.removeprefix("//").partition("/")
        store = StoreKind(kind)
        return cls(store, tuple(hosts.split(",")), root or STORES[store].default_root)

    def seen_from(self, namespace: str, domain: str) -> StoreUrl:
        """Return the URL with one name for each server: SERVICE.NAMESPACE for a Service, in lower case.

        Args:
            namespace: of the pool.
            domain: DNS domain of the Kubernetes cluster.
        """
        return self._replace(hosts=tuple(_full_name(host, namespace, domain) for host in self.hosts))

    def shares_with(self, other: StoreUrl) -> bool:
        """Return whether two URLs name the same records by at least one common server."""
        return self.kind == other.kind and self.root == other.root and not set(self.hosts).isdisjoint(other.hosts)


def _full_name(address: str, namespace: str, domain: str) -> str:
    host, _, port = address.lower().rpartition(":")
    host = host.removesuffix(".")
    return f"{qualified(host.removesuffix(f'.svc.{domain.lower()}').removesuffix('.svc'), namespace)}:{port}"


def may_follow(former: str, wanted: str) -> bool:
    """Return whether a pool may go from one metadata store URL to another: the rule of METADATA_STORE_URL."""
    if former == wanted:
        return True
    old, new = StoreUrl.parse(former), StoreUrl.parse(wanted)
    return old.kind is StoreKind.ZOOKEEPER and (new.kind is StoreKind.OXIA or new.shares_with(old))
