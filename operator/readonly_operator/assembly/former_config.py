"""The engine's configuration of brokers that keep their former pod template, from the pool's status.

Nobody can compute it: the spec has changed. The ConfigMap that brokers read is no record, for others may edit or delete it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

from readonly_operator.assembly.rollouts import is_pending
from readonly_operator.kube.digest import digest
from readonly_operator.kube.kinds import CONFIG_MAP, Manifest, kind_of
from readonly_operator.kube.names import ANNOTATION_CONFIG_HASH, CONFIG_KEY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from readonly_operator.kube.names import PoolKey


def recorded_config(body: Manifest) -> str | None:
    """Return status.brokerConfig of a pool; None before its first reconcile by an operator that writes it."""
    found = (body.get("status") or {}).get("brokerConfig")
    return found if isinstance(found, str) else None


def config_of(manifests: Iterable[Manifest], key: PoolKey) -> str | None:
    """Return the configuration in the objects of a pool; None for none."""
    for one in manifests:
        if kind_of(one) == CONFIG_MAP and one["metadata"]["name"] == key.config_map:
            text = (one.get("data") or {}).get(CONFIG_KEY)
            return text if isinstance(text, str) else None
    return None


def former_config(live: Manifest, recorded: str | None, stored: str | None) -> str | None:
    """Return the configuration of the brokers' former pod template; None for none.

    Args:
        live: the StatefulSet before the new pod template is applied.
        recorded: the configuration in the pool's status. An operator that ended between two writes has not recorded the last one.
        stored: the configuration in the live ConfigMap.
    """
    if recorded is None or stored is None:
        return stored if recorded is None else recorded
    if is_pending(live):
        return recorded
    # the live template is the former one. The stored text is not parsed: anybody may have written it
    annotations = live["spec"]["template"]["metadata"].get("annotations") or {}
    known = annotations.get(ANNOTATION_CONFIG_HASH)
    return recorded if known in (None, digest(yaml.safe_load(recorded))) else stored
