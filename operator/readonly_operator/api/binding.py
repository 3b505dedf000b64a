"""ReadOnlyTopicBinding as a typed value."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from readonly_operator.api.reader import ApiSpecError
from readonly_operator.api.schema import ListOf, Nested, Rule, Text, declare, load
from readonly_operator.names import PoolKey

if TYPE_CHECKING:
    from collections.abc import Mapping

TOPIC_NAME = r"persistent://[A-Za-z0-9_=:%.-]+/[A-Za-z0-9_=:%.-]+/[^/\s]+"
"""Tenant and namespace as Pulsar allows them (NamedEntity), then a topic's name or a regular expression of names."""
POOL_NAME = Text(
    253,
    "[a-z]([-a-z0-9]{0,48}[a-z0-9])?",
    "must be the name of a ReadOnlyBrokerPool, a DNS label of at most 50 characters",
    (Rule("self == oldSelf", "cannot change; make a new binding for another pool and delete this one"),),
)
TOPIC = Text(
    512,
    TOPIC_NAME,
    "must be persistent://TENANT/NAMESPACE/TOPIC, where TOPIC may be a regular expression, for example "
    "persistent://public/default/orders or persistent://public/default/orders-.*",
    (Rule("'x'.matches(self) in [true, false]", "must be a valid regular expression"),),
)


@dataclass(frozen=True, slots=True)
class PoolRef:
    """Which pool.

    Attributes:
        name: of the pool, in the binding's own namespace.
    """

    name: str = field(
        metadata=declare(
            POOL_NAME,
            "The pool's metadata.name.",
            required="give the name of a ReadOnlyBrokerPool in this namespace",
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingSpec:
    """Which topics, and which pool serves them.

    Attributes:
        pool_ref: the pool.
        topics: full names or regular expressions of full names.
    """

    pool_ref: PoolRef = field(
        metadata=declare(
            Nested(PoolRef),
            "The ReadOnlyBrokerPool that serves the topics; it is in the binding's own namespace. It cannot change.",
            required="say which pool serves the topics, for example poolRef: {name: demo}",
        )
    )
    topics: tuple[str, ...] = field(
        metadata=declare(
            ListOf(TOPIC, most=256, least=1, unique=True),
            "Topics by full name, persistent://TENANT/NAMESPACE/TOPIC (the name of a partitioned topic stands for all its "
            "partitions), or by regular expression: tenant and namespace literally, then an expression that must match the "
            "whole rest of the name, for example persistent://public/default/orders-.*",
            required='name at least one topic, for example topics: ["persistent://public/default/orders"]',
        )
    )


@dataclass(frozen=True, slots=True)
class Binding:
    """A binding as its spec asks for it.

    Attributes:
        namespace: of the object, and of its pool.
        name: of the object.
        generation: of the spec.
        pool: the pool that is to serve the topics.
        topics: full names or regular expressions of full names, sorted, each once.
    """

    namespace: str
    name: str
    generation: int
    pool: PoolKey
    topics: tuple[str, ...]

    @property
    def full_name(self) -> str:
        """The binding's name for the brokers."""
        return f"{self.namespace}/{self.name}"

    @classmethod
    def load(cls, body: Mapping[str, Any]) -> Binding:
        """The binding of a Kubernetes object.

        Raises:
            ApiSpecError: a field cannot be used; the text names it.
        """
        metadata = body["metadata"]
        spec = load(BindingSpec, body.get("spec") or {}, "spec")
        for index, topic in enumerate(spec.topics):
            _compile(f"spec.topics[{index}]", topic)
        return cls(
            namespace=metadata["namespace"],
            name=metadata["name"],
            generation=metadata.get("generation", 0),
            pool=PoolKey(metadata["namespace"], spec.pool_ref.name),
            topics=tuple(sorted(set(spec.topics))),
        )


def _compile(path: str, topic: str) -> None:
    try:
        re.compile(topic)
    except re.error as error:
        raise ApiSpecError(f"{path} is no regular expression: {error} in {topic!r}") from None
