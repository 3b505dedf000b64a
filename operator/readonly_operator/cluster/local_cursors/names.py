"""Names of a pool's topics and subscriptions for local cursors, as its brokers give them. Pure.

tests/unit/operator/cluster/local_cursors/test_names.py compares them with the engine's.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote

from readonly_operator.api.cursors import MAX_PARTITIONS

POOL_PROPERTY: Final = "pulsar-readonly.pool"
"""Property of a topic with cursors: identity of the pool to which it belongs."""

_TOPIC_PREFIX: Final = "__readonly_cursors-"
_GUARD_PREFIX: Final = "pulsar-readonly-guard-"
_SCHEME: Final = "persistent://"


def cursor_topic(namespace: str, identity: str) -> str:
    """Return the full name of the topic with a pool's cursors of a namespace (TENANT/NAMESPACE)."""
    return f"{_SCHEME}{namespace}/{_TOPIC_PREFIX}{quote(identity, safe='@')}"


def is_guard(subscription: str, identity: str) -> bool:
    """Return whether a subscription is a guard of exactly this pool: prefix, identity, and the number of a partition."""
    found = re.fullmatch(rf"{_GUARD_PREFIX}{re.escape(identity)}-(0|[1-9][0-9]{{0,3}})", subscription)
    return found is not None and int(found[1]) < MAX_PARTITIONS


def rest_path(topic: str) -> str:
    """Return the path of a persistent topic in the admin API, below /admin/v2/."""
    tenant, namespace, local = topic.removeprefix(_SCHEME).split("/", 2)
    return f"persistent/{quote(tenant, safe='')}/{quote(namespace, safe='')}/{quote(local, safe='')}"


def is_system(topic: str) -> bool:
    """Return whether a topic is Pulsar's own or a pool's own: it has no guards."""
    return topic.rpartition("/")[2].startswith("__")
