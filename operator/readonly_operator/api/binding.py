"""ReadOnlyTopicBinding as a typed value."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from readonly_engine.config.expression import MAX_LENGTH, SYNTAX, Expression, ExpressionError
from readonly_engine.config.topic_patterns import NAMESPACE as NAMESPACE_PATTERN

from readonly_operator.api.cursors import KEEP, KEEPERS, ON_DELETION, RELEASE
from readonly_operator.api.reader import ApiSpecError
from readonly_operator.api.schema import Choice, ListOf, Nested, Rule, Text, declare, load
from readonly_operator.api.values import NAMESPACE_NAME
from readonly_operator.kube.names import PAUSED_KEY, PoolKey

if TYPE_CHECKING:
    from collections.abc import Mapping

TOPIC_NAME = rf"persistent://{NAMESPACE_PATTERN}/[^/\s]+"
"""Tenant and namespace, then a topic's name or a regular expression of names."""
IS_EXPRESSION = Rule("'x'.matches(self) in [true, false]", f"must be a regular expression in {SYNTAX}")
"""The API server's own expressions are RE2 too, with other limits of size."""
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


NAMESPACE = Text(256, NAMESPACE_PATTERN, "must be TENANT/NAMESPACE, for example public/default")
SUBSCRIPTION = Text(256, rules=(IS_EXPRESSION,))
FALLBACKS = ("Reject", "Owner")
LIFECYCLES = ("Drain", "Detach")
DISPATCHES = ("Single", "Split")
PLACEMENTS = ("Always", "WhenCheaper")
TAILS = ("Auto", "Bookies", "Owner")
SPEC_CACHE_SIZE = 32768
"""Parsed specs that are cached: more than one operator's bindings."""


@dataclass(frozen=True, slots=True)
class PoolRef:
    """Reference to a pool.

    Attributes:
        name: of the pool.
        namespace: of the pool; empty for the binding's own.
    """

    RULES = (
        # `namespace` is a reserved word of the expression language
        Rule(
            "has(self.__namespace__) == has(oldSelf.__namespace__)"
            " && (!has(self.__namespace__) || self.__namespace__ == oldSelf.__namespace__)",
            "cannot change; make a new binding for a pool of another namespace and delete this one",
            ".namespace",
        ),
    )

    name: str = field(
        metadata=declare(
            POOL_NAME,
            "The pool's metadata.name.",
            required="give the name of a ReadOnlyBrokerPool in this namespace",
        )
    )
    namespace: str = field(
        default="",
        metadata=declare(
            NAMESPACE_NAME,
            "The pool's namespace. Without it, the binding's own. A pool of another namespace serves the binding only if its "
            "spec.allowedBindings allows that. It cannot change.",
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingSpec:
    """Spec of a binding: topics, and the pool that serves them.

    Attributes:
        pool_ref: the pool.
        topics: full names or regular expressions of full names.
        namespaces: TENANT/NAMESPACE, with all their topics.
        subscriptions: names or regular expressions of names; empty for all.
        cursors: keeper of the subscriptions' cursors; empty for the pool's setting.
        fallback: answer to lookups while no broker can serve.
        lifecycle_policy: handling of connected consumers when the binding is deleted.
        tail: source of new entries; empty for the brokers' own setting.
        dispatch: brokers of the pool that serve one Shared subscription.
        placement: servers of the consumers.
        on_deletion: Keep or Release, of the guards of local cursors.
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
            "The ReadOnlyBrokerPool that serves the topics. It cannot change.",
            required="say which pool serves the topics, for example poolRef: {name: demo}",
        )
    )
    topics: tuple[str, ...] = field(
        default=(),
        metadata=declare(
            ListOf(TOPIC, most=256, least=1, unique=True),
            "Topics by full name, persistent://TENANT/NAMESPACE/TOPIC, or by regular expression. A partitioned topic "
            "includes all "
            "its partitions. An expression has a literal tenant and namespace, and must match the whole rest of the name, for "
            "example persistent://public/default/orders-.*. It is in RE2 syntax: no lookaround, no backreferences.",
        ),
    )
    namespaces: tuple[str, ...] = field(
        default=(),
        metadata=declare(
            ListOf(NAMESPACE, most=64, least=1, unique=True),
            "Namespaces as TENANT/NAMESPACE: all their topics, also later ones, except Pulsar's own (__...).",
        ),
    )
    subscriptions: tuple[str, ...] = field(
        default=(),
        metadata=declare(
            ListOf(SUBSCRIPTION, most=64, least=1, unique=True),
            "Subscriptions that read-only brokers serve, by name or by regular expression (RE2) that must match the "
            "whole name, "
            "for example [audit, ml-.*]. Others pass through to the owner broker. Without it, all are served.",
        ),
    )
    cursors: str = field(
        default="",
        metadata=declare(
            Choice(KEEPERS),
            "Keeper of the subscriptions' cursors. Owner: the owner broker, which gets all acks. Local: the pool, in a compacted "
            "topic of each namespace, for very many subscriptions of a topic. Without it, the pool's spec.cursors.",
        ),
    )
    fallback: str = field(
        default="Reject",
        metadata=declare(
            Choice(FALLBACKS),
            "Answer to lookups while no broker of the pool can serve. Reject: a retriable error, so that the pool's load never "
            "moves to the owner brokers. Owner: the owner broker; clients stay there until they reconnect.",
            stored=True,
        ),
    )
    lifecycle_policy: str = field(
        default="Drain",
        metadata=declare(
            Choice(LIFECYCLES),
            "Handling of connected consumers when this binding is deleted. Drain: they are redirected to the owner broker at "
            "once. Detach: they are served until they disconnect. Lookups go to the owner broker in both cases.",
            stored=True,
        ),
    )
    tail: str = field(
        default="",
        metadata=declare(
            Choice(TAILS),
            "Source of new entries. Auto: the owner broker pushes them while they are few, and bookies are read while they are "
            "many. Bookies: bookies only. Owner: the owner broker only. Without it, the brokers' own setting applies: Auto.",
        ),
    )
    dispatch: str = field(
        default="Single",
        metadata=declare(
            Choice(DISPATCHES),
            "Brokers of the pool that serve one Shared or Key_Shared subscription. Single: one broker, to which the others "
            "redirect their consumers. Split: each broker serves its own consumers, and one leases the entries or keys to all. "
            "Subscriptions with chunked messages, transactions, partly acked batches or sticky ranges of keys are always served "
            "by one, and Key_Shared ones with local cursors.",
            stored=True,
        ),
    )
    placement: str = field(
        default="Always",
        metadata=declare(
            Choice(PLACEMENTS),
            "Servers of the consumers. Always: the pool. WhenCheaper: new consumers are redirected to the owner broker while the "
            "topic has fewer than four subscriptions with consumers, because these cost less CPU there. Readers, local cursors, "
            "and clients that do not follow redirects stay at the pool.",
            stored=True,
        ),
    )
    on_deletion: str = field(
        default=KEEP,
        metadata=declare(
            Choice(ON_DELETION),
            "Action on local cursors when this binding is deleted. Keep: nothing is removed, so the pool's guards still hold the "
            "retention at the source cluster. Release: the operator removes the guards of topics that no other binding of "
            "the pool covers. The deletion waits for that.",
            stored=True,
        ),
    )


@dataclass(frozen=True, slots=True)
class Binding:
    """A binding with its parsed spec.

    Attributes:
        namespace: of the object.
        name: of the object.
        generation: of the spec.
        pool: the pool that serves the topics.
        topics: full names or regular expressions of full names, sorted, each once.
        namespaces: TENANT/NAMESPACE, sorted, each once.
        subscriptions: names or regular expressions, sorted, each once; empty for all.
        fallback: one of FALLBACKS.
        lifecycle: one of LIFECYCLES.
        tail: one of TAILS; empty for the brokers' own setting.
        cursors: one of KEEPERS; empty for the pool's setting.
        dispatch: one of DISPATCHES.
        placement: one of PLACEMENTS.
        on_deletion: one of ON_DELETION.
        created: creation time of the object, as the API server writes it.
        paused: whether the annotation pauses it.
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
    tail: str = ""
    cursors: str = ""
    dispatch: str = DISPATCHES[0]
    placement: str = PLACEMENTS[0]
    on_deletion: str = KEEP
    created: str = ""
    paused: bool = False

    @property
    def releases(self) -> bool:
        """Return whether the deletion of the binding removes guards of local cursors."""
        return self.on_deletion == RELEASE

    @property
    def full_name(self) -> str:
        """Return the binding's name for the brokers."""
        return f"{self.namespace}/{self.name}"

    @property
    def pool_name(self) -> str:
        """Return the pool's name for messages, with its namespace if that is another one."""
        return self.pool.name if self.pool.namespace == self.namespace else str(self.pool)

    @classmethod
    def load(cls, body: Mapping[str, Any]) -> Binding:
        """Parse the object of a binding.

        Raises:
            ApiSpecError: a field is invalid; the text names it.
        """
        metadata = body["metadata"]
        spec = _spec(json.dumps(body.get("spec") or {}))
        return cls(
            namespace=metadata["namespace"],
            name=metadata["name"],
            generation=metadata.get("generation", 0),
            pool=PoolKey(spec.pool_ref.namespace or metadata["namespace"], spec.pool_ref.name),
            topics=tuple(sorted(set(spec.topics))),
            namespaces=tuple(sorted(set(spec.namespaces))),
            subscriptions=tuple(sorted(set(spec.subscriptions))),
            fallback=spec.fallback,
            lifecycle=spec.lifecycle_policy,
            tail=spec.tail,
            cursors=spec.cursors,
            dispatch=spec.dispatch,
            placement=spec.placement,
            on_deletion=spec.on_deletion,
            created=metadata.get("creationTimestamp") or "",
            paused=is_paused(body),
        )


def is_paused(body: Mapping[str, Any]) -> bool:
    """Return whether the object's annotation pauses it."""
    return (body["metadata"].get("annotations") or {}).get(PAUSED_KEY) == "true"


@lru_cache(maxsize=SPEC_CACHE_SIZE)
def _spec(text: str) -> BindingSpec:
    """Parse a spec (JSON). Parsing takes most of a millisecond, and few specs have changed since the last call."""
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
