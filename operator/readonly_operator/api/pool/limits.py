"""ReadOnlyBrokerPool: cache, limits and tiered storage of a broker."""

from __future__ import annotations

from dataclasses import dataclass, field

from readonly_operator.api.schema import Choice, Nested, Number, Rule, Text, declare
from readonly_operator.api.secrets import CredentialsKey
from readonly_operator.api.values import SIZE


@dataclass(frozen=True, slots=True)
class Cache:
    """Entry cache of a broker.

    Attributes:
        size: Kubernetes quantity, whole Ki, Mi or Gi.
    """

    size: str = field(
        default="256Mi",
        metadata=declare(SIZE, "Memory for the entry cache of each broker, for example 512Mi.", stored=True),
    )


@dataclass(frozen=True, slots=True)
class DispatchRate:
    """Limits per second.

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
    """Limits of one broker.

    Attributes:
        max_connections: client connections, 0 for any number.
        max_connections_per_ip: client connections from one address, 0 for any number.
        max_consumers_per_topic: consumers of a topic, 0 for any number.
        max_consumers_per_subscription: consumers of a subscription, 0 for any number.
        max_buffered_bytes: memory for unsent data of slow clients; empty for the broker's default.
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
    max_buffered_bytes: str = field(
        default="",
        metadata=declare(
            SIZE,
            "Memory of a broker for unsent data of slow clients, all clients together. Without it, 512Mi.",
        ),
    )
    dispatch_rate_per_subscription: DispatchRate | None = field(
        default=None,
        metadata=declare(Nested(DispatchRate), "Dispatch rate limit of each subscription. Without it, no limit."),
    )
    dispatch_rate_per_broker: DispatchRate | None = field(
        default=None,
        metadata=declare(
            Nested(DispatchRate),
            "Dispatch rate limit of all subscriptions of a broker together. Without it, no limit.",
        ),
    )


@dataclass(frozen=True, slots=True)
class TieredStorage:
    """Reads of offloaded ledgers. Each ledger's metadata names driver, bucket, region and endpoint; empty fields use those.

    Attributes:
        read_priority: copy that is read while both exist.
        endpoint: replaces that of the ledger's metadata.
        region: replaces that of the ledger's metadata.
        bucket: replaces that of the ledger's metadata.
        credentials: None for those of the pod's environment.
        filesystem_root: mount point of the driver filesystem's directory; empty for the path in the metadata.
        cache_size: cache of read data; empty for the broker's default.
    """

    read_priority: str = field(
        default="TieredStorageFirst",
        metadata=declare(
            Choice(("TieredStorageFirst", "BookKeeperFirst")),
            "Copy of a ledger to read while both exist; the other one is read if that fails.",
        ),
    )
    endpoint: str = field(
        default="",
        metadata=declare(
            Text(512, r"https?://[^\s/]+/?", "must be http://HOST:PORT or https://HOST"),
            "The store's address for brokers of the pool. Without it, that of the ledger's metadata.",
        ),
    )
    region: str = field(
        default="",
        metadata=declare(Text(64), "The store's region. Without it, that of the ledger's metadata."),
    )
    bucket: str = field(
        default="", metadata=declare(Text(255), "The bucket. Without it, that of the ledger's metadata.")
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
            "Mount path of the driver filesystem's directory (see podTemplate.volumes). Without it, the path in the "
            "ledger's metadata.",
        ),
    )
    cache_size: str = field(
        default="",
        metadata=declare(SIZE, "Memory of a broker for data from the store. Without it, 64Mi."),
    )
