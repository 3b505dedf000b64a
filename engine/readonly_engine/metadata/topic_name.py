"""Names of topics, in the forms of Pulsar's TopicName."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote_plus, unquote_plus

from readonly_engine.metadata.errors import TopicNameError

MAX_CACHED_NAMES = 16_384
MAX_CACHED_CHARACTERS = 256
_PARTITION_SUFFIX = "-partition-"
_PARTITION_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")  # `x-partition-01` is no partition (TopicName.getPartitionIndex)
_TENANT_OR_NAMESPACE = re.compile(r"(?!\.{1,2}\Z)[-=:.\w]+")
"""As Pulsar allows them (NamedEntity), without `.` and `..`: these would lead out of a path, and ZooKeeper refuses them."""


def encode_name(text: str) -> str:
    """Encode the name of a topic or cursor as Pulsar stores it: Java's URLEncoder keeps `.-*_` and writes a space as `+`."""
    return quote_plus(text, safe="*").replace("~", "%7E")


def decode_name(text: str) -> str:
    """Decode a name from `encode_name`."""
    return unquote_plus(text)


@dataclass(frozen=True, slots=True)
class TopicName:
    """A topic, or one partition of a partitioned topic.

    Attributes:
        domain: persistent or non-persistent.
        tenant: the tenant.
        namespace: the namespace within the tenant.
        local_name: the rest, with the suffix of a partition.
    """

    domain: str
    tenant: str
    namespace: str
    local_name: str

    def __str__(self) -> str:
        return f"{self.domain}://{self.tenant}/{self.namespace}/{self.local_name}"

    @property
    def partition(self) -> int:
        """Index of the partition; -1 for a topic that is not a partition."""
        _, found, index = self.local_name.rpartition(_PARTITION_SUFFIX)
        return int(index) if found and _PARTITION_INDEX.fullmatch(index) else -1

    @property
    def base(self) -> TopicName:
        """Partitioned topic of a partition; the topic itself if it is no partition."""
        if self.partition < 0:
            return self
        return TopicName(self.domain, self.tenant, self.namespace, self.local_name.rpartition(_PARTITION_SUFFIX)[0])

    def at(self, partition: int) -> TopicName:
        """Return a partition of this partitioned topic."""
        return TopicName(self.domain, self.tenant, self.namespace, f"{self.local_name}{_PARTITION_SUFFIX}{partition}")

    @property
    def partitions_path(self) -> str:
        """Znode with the number of partitions of a partitioned topic."""
        return f"/admin/partitioned-topics/{self.tenant}/{self.namespace}/{self.domain}/{encode_name(self.local_name)}"

    @property
    def managed_ledger_path(self) -> str:
        """Znode of the topic (TopicName.getPersistenceNamingEncoding)."""
        return f"/managed-ledgers/{self.tenant}/{self.namespace}/{self.domain}/{encode_name(self.local_name)}"

    @property
    def rest_path(self) -> str:
        """Path of the topic in the admin API."""
        return f"{self.domain}/{self.tenant}/{self.namespace}/{quote_plus(self.local_name)}"


def parse_topic_name(text: str) -> TopicName:
    """Parse a topic's name, in full or in the short forms of Pulsar's clients: `orders`, `tenant/namespace/orders`.

    The last MAX_CACHED_NAMES names are kept, but none above MAX_CACHED_CHARACTERS: strangers may ask for any name.

    Raises:
        TopicNameError: the name is invalid.
    """
    return _parse_cached(text) if len(text) <= MAX_CACHED_CHARACTERS else _parse(text)


def _parse(text: str) -> TopicName:
    domain, found, rest = text.partition("://")
    if not found:
        domain, rest = "persistent", text
        if "/" not in rest:
            rest = f"public/default/{rest}"
    parts = rest.split("/", 2)
    if domain not in {"persistent", "non-persistent"}:
        raise TopicNameError(
            f"topic {text!r} starts with {domain}://; it must start with persistent:// or non-persistent://"
        )
    if len(parts) != 3 or not parts[2] or not all(_TENANT_OR_NAMESPACE.fullmatch(part) for part in parts[:2]):
        raise TopicNameError(f"{text!r} is not a topic name; write persistent://TENANT/NAMESPACE/TOPIC")
    tenant, namespace, local_name = parts
    # One object of each part for all topics that share it.
    return TopicName(sys.intern(domain), sys.intern(tenant), sys.intern(namespace), local_name)


_parse_cached = lru_cache(maxsize=MAX_CACHED_NAMES)(_parse)
