"""ReadOnlyBrokerPool: spec.allowedBindings, the bindings that the pool serves.

The form of `namespaces` is that of allowedRoutes in the Gateway API.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from readonly_operator.api.kubernetes import LABEL_SELECTOR
from readonly_operator.api.schema import Choice, ListOf, Nested, Rule, Text, declare, load

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SAME = "Same"
ALL = "All"
SELECTOR = "Selector"
SCOPES = (SAME, ALL, SELECTOR)

CACHE_SIZE = 4096
"""Parsed values that are cached: more than one operator's pools."""

_NAMED = "[A-Za-z0-9_=:%.-]+"
TENANT = Text(
    256,
    f"{_NAMED}(/{_NAMED})?",
    "must be TENANT or TENANT/NAMESPACE of Pulsar, for example shop or shop/eu",
)


@dataclass(frozen=True, slots=True)
class BindingNamespaces:
    """Namespaces of Kubernetes whose bindings a pool serves.

    Attributes:
        scope: Same, All or Selector.
        selector: label selector of namespaces; None for none.
    """

    RULES = (
        Rule(
            "(has(self.from) && self.from == 'Selector') == has(self.selector)",
            "must be given with from: Selector, and only then",
            ".selector",
        ),
        Rule(
            "!has(self.selector) || !has(self.selector.matchExpressions) || self.selector.matchExpressions.all(one,"
            " (one.operator in ['In', 'NotIn']) == (has(one.values) && one.values.size() > 0))",
            "must have values with the operators In and NotIn, and none with Exists and DoesNotExist",
            ".selector",
        ),
    )

    scope: str = field(
        default=SAME,
        metadata=declare(
            Choice(SCOPES),
            "Same: the pool's own namespace. All: all namespaces. Selector: the pool's own, and those that selector matches.",
            stored=True,
            name="from",
        ),
    )
    selector: Mapping[str, Any] | None = field(
        default=None,
        metadata=declare(
            LABEL_SELECTOR,
            "Labels of namespaces. Every namespace has its name in the label kubernetes.io/metadata.name. Only with from: "
            "Selector.",
        ),
    )

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Return whether the selector matches a namespace with these labels; False without a selector."""
        if self.selector is None:
            return False
        exact = self.selector.get("matchLabels") or {}
        return all(labels.get(key) == value for key, value in exact.items()) and all(
            _holds(one, labels) for one in self.selector.get("matchExpressions") or ()
        )


@dataclass(frozen=True, slots=True)
class AllowedBindings:
    """Bindings that a pool serves.

    Attributes:
        namespaces: namespaces of the bindings.
        tenants: TENANT or TENANT/NAMESPACE of Pulsar whose topics bindings may name; empty for all.
    """

    namespaces: BindingNamespaces = field(
        default=BindingNamespaces(),
        metadata=declare(
            Nested(BindingNamespaces),
            "Namespaces whose bindings the pool serves. Without it, the pool's own namespace.",
        ),
    )
    tenants: tuple[str, ...] = field(
        default=(),
        metadata=declare(
            ListOf(TENANT, most=64, least=1, unique=True),
            "Tenants of Pulsar, or TENANT/NAMESPACE, whose topics bindings may name. A binding that names another topic too "
            "is not served at all. Without it, all tenants.",
        ),
    )

    def forbidden(self, namespaces: Iterable[str]) -> list[str]:
        """Return the namespaces of Pulsar (TENANT/NAMESPACE) whose topics bindings may not name, sorted."""
        if not self.tenants:
            return []
        return sorted(
            {one for one in namespaces if one not in self.tenants and one.partition("/")[0] not in self.tenants}
        )


def parse_allowed_bindings(spec: Mapping[str, Any]) -> AllowedBindings:
    """Parse a pool's spec.allowedBindings, and nothing else of the spec.

    Raises:
        ApiSpecError: it is invalid.
    """
    value = spec.get("allowedBindings")
    return NO_OTHERS if value is None else _parsed(json.dumps(value))


@lru_cache(maxsize=CACHE_SIZE)
def _parsed(text: str) -> AllowedBindings:
    return load(AllowedBindings, json.loads(text), "spec.allowedBindings")


def _holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Return whether one of matchExpressions holds. A list of values that does not fit its operator holds for no labels."""
    value, values = labels.get(expression["key"]), expression.get("values") or ()
    match expression["operator"]:
        case "In":
            return value is not None and value in values
        case "NotIn":
            return bool(values) and (value is None or value not in values)
        case "Exists":
            return value is not None and not values
        case _:
            return value is None and not values


NO_OTHERS = AllowedBindings()
"""Without the field: bindings of the pool's own namespace, with topics of all tenants."""
