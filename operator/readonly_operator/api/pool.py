"""ReadOnlyBrokerPool as a typed value."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from readonly_operator.api import reader
from readonly_operator.names import PoolKey

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_REPLICAS = 2
DEFAULT_CACHE_SIZE = "256Mi"
MANAGEMENTS = ("Verify",)


@dataclass(frozen=True, slots=True)
class Source:
    """The writable cluster.

    Attributes:
        service_url: pulsar://HOST:PORT[,HOST:PORT]
        admin_url: http(s)://HOST:PORT, without a slash at the end.
        metadata_store_url: zk:HOST:PORT[,HOST:PORT][/CHROOT]
    """

    service_url: str
    admin_url: str
    metadata_store_url: str


@dataclass(frozen=True, slots=True)
class ExplicitLac:
    """What the user wants of the writable brokers' explicit LAC.

    Attributes:
        management: Verify, so far.
        interval_ms: longest interval in milliseconds that is accepted; None for any.
    """

    management: str = MANAGEMENTS[0]
    interval_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Pool:
    """A pool as its spec asks for it.

    Attributes:
        key: namespace and name.
        uid: of the object, for owner references.
        generation: of the spec.
        source: the writable cluster.
        replicas: brokers wanted.
        image: of the brokers; empty for the operator's own choice.
        image_pull_policy: empty for Kubernetes' own rule.
        resources: of a broker's container, as in a pod.
        cache_size: Kubernetes quantity, whole Ki, Mi or Gi.
        explicit_lac: what is wanted of the writable brokers.
    """

    key: PoolKey
    uid: str
    generation: int
    source: Source
    replicas: int
    image: str
    image_pull_policy: str
    resources: Mapping[str, Mapping[str, str]]
    cache_size: str
    explicit_lac: ExplicitLac

    @classmethod
    def load(cls, body: Mapping[str, Any]) -> Pool:
        """The pool of a Kubernetes object.

        Raises:
            ApiSpecError: a field cannot be used; the text names it.
        """
        metadata = body["metadata"]
        spec = reader.mapping(body, "", "spec")
        source = reader.mapping(spec, "spec", "source")
        lac = reader.mapping(spec, "spec", "explicitLac")
        cache = reader.mapping(spec, "spec", "cache")
        management = reader.text(lac, "spec.explicitLac", "management", MANAGEMENTS[0])
        if management not in MANAGEMENTS:
            raise reader.ApiSpecError(
                f"spec.explicitLac.management must be one of {', '.join(MANAGEMENTS)}, not {management!r}"
            )
        interval = lac.get("interval")
        cache_size = reader.text(cache, "spec.cache", "size", DEFAULT_CACHE_SIZE)
        if not re.fullmatch(r"[1-9][0-9]*(Ki|Mi|Gi)", cache_size):
            raise reader.ApiSpecError(f"spec.cache.size must be a whole number of Ki, Mi or Gi, not {cache_size!r}")
        return cls(
            key=PoolKey(metadata["namespace"], metadata["name"]),
            uid=metadata["uid"],
            generation=metadata.get("generation", 0),
            source=Source(
                service_url=reader.text(source, "spec.source", "serviceUrl"),
                admin_url=reader.text(source, "spec.source", "adminUrl").rstrip("/"),
                metadata_store_url=reader.text(source, "spec.source", "metadataStoreUrl"),
            ),
            replicas=reader.number(spec, "spec", "replicas", DEFAULT_REPLICAS),
            image=spec.get("image") or "",
            image_pull_policy=spec.get("imagePullPolicy") or "",
            resources=_resources(reader.mapping(spec, "spec", "resources")),
            cache_size=cache_size,
            explicit_lac=ExplicitLac(
                management, None if interval is None else milliseconds("spec.explicitLac.interval", interval)
            ),
        )


def _resources(resources: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Quantities as text, which is how Kubernetes gives them back."""
    return {
        kind: {name: str(quantity) for name, quantity in reader.mapping(resources, "spec.resources", kind).items()}
        for kind in resources
    }


def milliseconds(path: str, value: object) -> int:
    """A duration like 200ms or 1s, in milliseconds.

    Raises:
        ApiSpecError: it is none; `path` names the field.
    """
    match = re.fullmatch(r"([1-9][0-9]*)(ms|s)", value) if isinstance(value, str) else None
    if match is None:
        raise reader.ApiSpecError(f"{path} must be a whole number of ms or s, for example 200ms, not {value!r}")
    return int(match[1]) * (1000 if match[2] == "s" else 1)
