"""ReadOnlyBrokerPool: spec.source, the writable cluster."""

from __future__ import annotations

from dataclasses import dataclass, field

from readonly_operator.api.schema import Rule, Text, declare
from readonly_operator.api.values import HOST, HOST_PORT, PORT

SERVICE_URL = Text(
    512,
    rf"pulsar://{HOST_PORT}(,{HOST_PORT})*/?",
    "must be pulsar://HOST:PORT[,HOST:PORT], for example pulsar://pulsar-broker.pulsar:6650",
)
ADMIN_URL = Text(
    512,
    rf"https?://{HOST_PORT}/?",
    "must be http://HOST:PORT or https://HOST:PORT, for example http://pulsar-broker.pulsar:8080",
)
METADATA_STORE_URL = Text(
    512,
    rf"zk:{HOST}:{PORT}(,{HOST}:{PORT})*(/[A-Za-z0-9._/-]*)?",
    "must be zk:HOST:PORT[,HOST:PORT][/CHROOT], for example zk:pulsar-zookeeper.pulsar:2181",
    (
        Rule(
            "self == oldSelf",
            "cannot change, for it says which cluster the pool serves; make a new pool for another cluster",
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class Source:
    """The writable cluster.

    Attributes:
        service_url: pulsar://HOST:PORT[,HOST:PORT]
        admin_url: http(s)://HOST:PORT, without a slash at the end.
        metadata_store_url: zk:HOST:PORT[,HOST:PORT][/CHROOT]
    """

    service_url: str = field(
        metadata=declare(
            SERVICE_URL,
            "What clients of the writable brokers use, pulsar://HOST:PORT[,HOST:PORT]. Read-only brokers relay "
            "subscriptions and acks to it, and send producers there.",
            required="give the URL that clients of the writable brokers use, for example pulsar://pulsar-broker.pulsar:6650",
        )
    )
    admin_url: str = field(
        metadata=declare(
            ADMIN_URL,
            "The admin API of the writable brokers, http://HOST:PORT or https://HOST:PORT. Used to check the cluster and "
            "to read state of topics; never to change anything.",
            required="give the URL of the writable brokers' admin API, for example http://pulsar-broker.pulsar:8080",
        )
    )
    metadata_store_url: str = field(
        metadata=declare(
            METADATA_STORE_URL,
            "ZooKeeper of the writable cluster, zk:HOST:PORT[,HOST:PORT][/CHROOT]: the value of metadataStoreUrl in "
            "broker.conf. It is what makes a cluster that cluster, so it cannot change.",
            required="give the metadata store of the writable cluster as its brokers have it in metadataStoreUrl, "
            "for example zk:pulsar-zookeeper.pulsar:2181",
        )
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "admin_url", self.admin_url.rstrip("/"))
