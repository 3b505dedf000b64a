"""ReadOnlyTopicBinding as a typed value."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from readonly_engine.expression import MAX_LENGTH, SYNTAX, Expression, ExpressionError

from readonly_operator.api.reader import ApiSpecError
from readonly_operator.api.schema import Choice, ListOf, Nested, Rule, Text, declare, load
from readonly_operator.kube.names import PAUSED_KEY, PoolKey

if TYPE_CHECKING:
    from collections.abc import Mapping

TOPIC_NAME = r"persistent://[A-Za-z0-9_=:%.-]+/[A-Za-z0-9_=:%.-]+/[^/\s]+"
"""Tenant and namespace as Pulsar allows them (NamedEntity), then a topic's name or a regular expression of names."""
IS_EXPRESSION = Rule("'x'.matches(self) in [true, false]", f"must be a regular expression in {SYNTAX}")
"""The API server's own expressions are RE2's, but for limits of size."""
POOL_NAME = Text(
    253,
    "[a-z]([-a-z0-9]{0,48}[a-z0-9])?",
    "must be the name of a ReadOnlyBrokerPool, a DNS label of at most 50 characters",
    (Rule("self == oldSelf", "cannot change; make a new binding for another pool and delete this one"),),
)
TOPIC = Text(
    MAX_LENGTH,
    TOPIC_NAME,
    "must be persistent://TENANT/NAMESPACE/TOPIC, where TOPIC may be a regular expression, for example "
    "persistent://public/default/orders or persistent://public/default/orders-.*",
    (IS_EXPRESSION,),
)


NAMESPACE = Text(256, r"[A-Za-z0-9_=:%.-]+/[A-Za-z0-9_=:%.-]+", "must be TENANT/NAMESPACE, for example public/default")
SUBSCRIPTION = Text(256, rules=(IS_EXPRESSION,))
CURSORS = ("Forwarded",)
FALLBACKS = ("Reject", "Writer")
LIFECYCLES = ("Drain", "Detach")
SPEC_CACHE_SIZE = 32768
"""How many specs are kept as they were read: more bindings than one operator is meant for."""


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
        namespaces: TENANT/NAMESPACE, all topics of which are meant.
        subscriptions: names or regular expressions of names; empty for all.
        cursors: where cursors are kept.
        fallback: what lookups are answered while no broker can serve.
        lifecycle_policy: what becomes of connected consumers when the binding is deleted.
    """

    RULES = (
        Rule(
            "has(self.topics) || has(self.namespaces)",
            'name at least one topic, for example topics: ["persistent://public/default/orders"], '
            "or a namespace, for example namespaces: [public/default]",
            ".topics",
            "FieldValueRequired",
        ),
    )

    pool_ref: PoolRef = field(
        metadata=declare(
            Nested(PoolRef),
            "The ReadOnlyBrokerPool that serves the topics; it is in the binding's own namespace. It cannot change.",
            required="say which pool serves the topics, for example poolRef: {name: demo}",
        )
    )
    topics: tuple[str, ...] = field(
        default=(),
        metadata=declare(
            ListOf(TOPIC, most=256, least=1, unique=True),
            "Topics by full name, persistent://TENANT/NAMESPACE/TOPIC (the name of a partitioned topic stands for all its "
            "partitions), or by regular expression: tenant and namespace literally, then an expression that must match the "
            "whole rest of the name, for example persistent://public/default/orders-.*. It is in RE2 syntax: no "
            "lookaround, no backreferences.",
        ),
    )
    namespaces: tuple[str, ...] = field(
        default=(),
        metadata=declare(
            ListOf(NAMESPACE, most=64, least=1, unique=True),
            "Namespaces as TENANT/NAMESPACE: all their topics, also those that are made later, but for Pulsar's own (__...).",
        ),
    )
    subscriptions: tuple[str, ...] = field(
        default=(),
        metadata=declare(
            ListOf(SUBSCRIPTION, most=64, least=1, unique=True),
            "Subscriptions that read-only brokers serve, by name or by regular expression that must match the whole name, for "
            "example [audit, ml-.*], in RE2 syntax. Others are relayed to the topic's owner whole. Without it, all are served.",
        ),
    )
    cursors: str = field(
        default="Forwarded",
        metadata=declare(
            Choice(CURSORS),
            "Where subscriptions' cursors are kept. Forwarded: at the topic's owner, to which acks are relayed.",
            stored=True,
        ),
    )
    fallback: str = field(
        default="Reject",
        metadata=declare(
            Choice(FALLBACKS),
            "What a lookup is answered while no broker of the pool can serve. Reject: to try again, so that the writable "
            "brokers never get the pool's load unasked. Writer: the topic's owner; clients stay there until they reconnect.",
            stored=True,
        ),
    )
    lifecycle_policy: str = field(
        default="Drain",
        metadata=declare(
            Choice(LIFECYCLES),
            "What becomes of connected consumers when this binding is deleted. Drain: they are sent to the topic's owner at "
            "once. Detach: they are served until they leave by themselves. Lookups go to the owner in both cases.",
            stored=True,
        ),
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
        namespaces: TENANT/NAMESPACE, sorted, each once.
        subscriptions: names or regular expressions, sorted, each once; empty for all.
        fallback: one of FALLBACKS.
        lifecycle: one of LIFECYCLES.
        created: when the object was made, as the API server writes it.
        paused: whether its annotation says that nothing is to change.
    """

    namespace: str
    name: str
    generation: int
    pool: PoolKey
    topics: tuple[str, ...]
    namespaces: tuple[str, ...] = ()
    subscriptions: tuple[str, ...] = ()
    fallback: str = FALLBACKS[0]
    lifecycle: str = LIFECYCLES[0]
    created: str = ""
    paused: bool = False

    @property
    def full_name(self) -> str:
        """The binding's name for the brokers."""
        return f"{self.namespace}/{self.name}"

    def older_than(self, other: Binding) -> bool:
        """Whether this one was there first; by name where both were made in the same second."""
        return (self.created, self.full_name) < (other.created, other.full_name)

    @classmethod
    def load(cls, body: Mapping[str, Any]) -> Binding:
        """The binding of a Kubernetes object.

        Raises:
            ApiSpecError: a field cannot be used; the text names it.
        """
        metadata = body["metadata"]
        spec = _spec(json.dumps(body.get("spec") or {}))
        return cls(
            namespace=metadata["namespace"],
            name=metadata["name"],
            generation=metadata.get("generation", 0),
            pool=PoolKey(metadata["namespace"], spec.pool_ref.name),
            topics=tuple(sorted(set(spec.topics))),
            namespaces=tuple(sorted(set(spec.namespaces))),
            subscriptions=tuple(sorted(set(spec.subscriptions))),
            fallback=spec.fallback,
            lifecycle=spec.lifecycle_policy,
            created=metadata.get("creationTimestamp") or "",
            paused=is_paused(body),
        )


def is_paused(body: Mapping[str, Any]) -> bool:
    """Whether an object's annotation says that nothing is to change."""
    return (body["metadata"].get("annotations") or {}).get(PAUSED_KEY) == "true"


@lru_cache(maxsize=SPEC_CACHE_SIZE)
def _spec(text: str) -> BindingSpec:
    """A spec (JSON). Reading one takes most of a millisecond, and few have changed since they were last looked at."""
    spec = load(BindingSpec, json.loads(text), "spec")
    if not spec.topics and not spec.namespaces:
        raise ApiSpecError("spec.topics or spec.namespaces must name at least one topic or namespace")
    for what, expressions in (("topics", spec.topics), ("subscriptions", spec.subscriptions)):
        for index, expression in enumerate(expressions):
            try:
                Expression.parse(expression)
            except ExpressionError as error:
                raise ApiSpecError(f"spec.{what}[{index}] {expression!r} is no regular expression: {error}") from None
    return spec
