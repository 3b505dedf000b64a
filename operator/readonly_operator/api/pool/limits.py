"""ReadOnlyBrokerPool: what a broker keeps, how much it gives, and how it reads what was offloaded."""

from __future__ import annotations

from dataclasses import dataclass, field

from readonly_operator.api.schema import Choice, Nested, Number, Rule, Text, declare
from readonly_operator.api.secrets import CredentialsKey
from readonly_operator.api.values import SIZE


@dataclass(frozen=True, slots=True)
class Cache:
    """What a broker keeps in memory.

    Attributes:
        size: Kubernetes quantity, whole Ki, Mi or Gi.
    """

    size: str = field(
        default="256Mi",
        metadata=declare(SIZE, "Memory for the entry cache of each broker, for example 512Mi.", stored=True),
    )


@dataclass(frozen=True, slots=True)
class DispatchRate:
    """What a second allows.

    Attributes:
        messages: 0 for any number.
        size: empty for any number of bytes.
    """

    RULES = (Rule("has(self.messages) || has(self.bytes)", "must have messages or bytes, or both"),)

    messages: int = field(
        default=0,
        metadata=declare(Number(1, 1_000_000_000), "Messages in a second. Without it, any number."),
    )
    size: str = field(
        default="",
        metadata=declare(SIZE, "Bytes in a second, for example 10Mi. Without it, any number.", name="bytes"),
    )


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one broker takes and gives.

    Attributes:
        max_connections: client connections, 0 for any number.
        max_connections_per_ip: client connections from one address, 0 for any number.
        max_consumers_per_topic: consumers of a topic, 0 for any number.
        max_consumers_per_subscription: consumers of a subscription, 0 for any number.
        max_buffered_memory: what waits for slow clients; empty for the broker's default.
        dispatch_rate_per_subscription: None for no limit.
        dispatch_rate_per_broker: None for no limit.
    """

    max_connections: int = field(
        default=0, metadata=declare(Number(0, 1_000_000), "Client connections of a broker; 0 is any number.")
    )
    max_connections_per_ip: int = field(
        default=0,
        metadata=declare(Number(0, 1_000_000), "Client connections of a broker from one address; 0 is any number."),
    )
    max_consumers_per_topic: int = field(
        default=0, metadata=declare(Number(0, 1_000_000), "Consumers of a topic on a broker; 0 is any number.")
    )
    max_consumers_per_subscription: int = field(
        default=0, metadata=declare(Number(0, 1_000_000), "Consumers of a subscription on a broker; 0 is any number.")
    )
    max_buffered_memory: str = field(
        default="",
        metadata=declare(
            SIZE,
            "Memory of a broker for what waits until slow clients read it, of all clients together. Without it, 512Mi.",
        ),
    )
    dispatch_rate_per_subscription: DispatchRate | None = field(
        default=None,
        metadata=declare(Nested(DispatchRate), "What each subscription may get in a second. Without it, no limit."),
    )
    dispatch_rate_per_broker: DispatchRate | None = field(
        default=None,
        metadata=declare(
            Nested(DispatchRate),
            "What all subscriptions of a broker together may get in a second. Without it, no limit.",
        ),
    )


@dataclass(frozen=True, slots=True)
class TieredStorage:
    """How offloaded ledgers are read. Driver, bucket, region and endpoint are noted beside each ledger: empty uses those.

    Attributes:
        read_priority: which copy is read while both are there.
        endpoint: instead of the noted one.
        region: instead of the noted one.
        bucket: instead of the noted one.
        credentials: None for those that the pod has by itself.
        filesystem_root: where the driver filesystem's directory is mounted; empty for the noted path.
        cache_size: what is kept of what was read; empty for the broker's default.
    """

    read_priority: str = field(
        default="TieredStorageFirst",
        metadata=declare(
            Choice(("TieredStorageFirst", "BookKeeperFirst")),
            "Which copy of a ledger is read while both are there; the other is read where that fails.",
        ),
    )
    endpoint: str = field(
        default="",
        metadata=declare(
            Text(512, r"https?://[^\s/]+/?", "must be http://HOST:PORT or https://HOST"),
            "The store's address as brokers of the pool reach it. Without it, the one that the writable brokers noted.",
        ),
    )
    region: str = field(
        default="",
        metadata=declare(Text(64), "The store's region. Without it, the one that the writable brokers noted."),
    )
    bucket: str = field(
        default="", metadata=declare(Text(255), "The bucket. Without it, the one that the writable brokers noted.")
    )
    credentials: CredentialsKey | None = field(
        default=None,
        metadata=declare(
            Nested(CredentialsKey),
            "A Secret with credentials for the store: for S3 an ini file as the AWS tools have it, for Azure one with "
            "azure_storage_account and azure_storage_access_key in the section [default], for Google Cloud Storage a service "
            "account's JSON. Without it, those of the pod's environment.",
        ),
    )
    filesystem_root: str = field(
        default="",
        metadata=declare(
            Text(512, r"/[^\s]*", "must be an absolute path"),
            "Where the directory of the driver filesystem is mounted (see podTemplate.volumes). Without it, the path that the "
            "writable brokers noted.",
        ),
    )
    cache_size: str = field(
        default="",
        metadata=declare(SIZE, "Memory of a broker for what it read from the store. Without it, 64Mi."),
    )
