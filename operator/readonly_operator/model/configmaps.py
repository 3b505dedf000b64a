"""The two ConfigMaps of a pool: the engine's configuration and the lookup redirection config."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

from readonly_operator.kube.kinds import CONFIG_MAP, Manifest
from readonly_operator.kube.names import ANNOTATION_POOL_UID, BINDINGS_KEY, CONFIG_KEY
from readonly_operator.model.engine import engine_config
from readonly_operator.model.metadata import add, start

if TYPE_CHECKING:
    from readonly_operator.api.pool import Pool
    from readonly_operator.model.lookup import LookupConfig


def config_map(pool: Pool) -> Manifest:
    """Return the ConfigMap with the engine's configuration; brokers read it at start."""
    manifest = start(CONFIG_MAP, pool.key.config_map, pool)
    add(manifest, pool, {}, {ANNOTATION_POOL_UID: pool.membership_uid})
    manifest["data"] = {CONFIG_KEY: yaml.safe_dump(engine_config(pool), sort_keys=False, width=1000)}
    return manifest


def bindings_map(pool: Pool, lookup: LookupConfig) -> Manifest:
    """Return the ConfigMap with the lookup redirection config; running brokers follow its changes."""
    manifest = start(CONFIG_MAP, pool.key.bindings_map, pool)
    manifest["data"] = {BINDINGS_KEY: lookup.yaml()}
    return manifest
