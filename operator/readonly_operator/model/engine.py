"""The engine's configuration for a pool, as options of `pulsar-readonly serve --config`.

An option of the engine names its field of a pool, so a new one needs nothing here, unless its value is no copy of the field's.
"""

from __future__ import annotations

from functools import cache, reduce
from typing import TYPE_CHECKING, Any, Final

from readonly_engine.config.kinds import FILE, SIZE
from readonly_engine.config.option import Kind, Option, options_of
from readonly_engine.config.settings import EngineConfig

from readonly_operator.api.field_paths import attributes_of, by_json_name
from readonly_operator.api.pool.spec import PoolSpec
from readonly_operator.api.schema import json_name
from readonly_operator.kube.names import (
    ALL_INTERFACES,
    LOCALITY_FILE,
    PORT_HTTP,
    PORT_PULSAR,
    PORT_PULSAR_TLS,
    SECRETS_DIRECTORY,
)
from readonly_operator.model.files import mounts, oauth2_options

if TYPE_CHECKING:
    from readonly_operator.api.pool import Pool

_ARGUMENTS: Final = {"advertised-listeners", "workers"}
"""Options that each broker gets as arguments: they depend on its pod, or are as old as the first release."""


def engine_config(pool: Pool) -> dict[str, Any]:
    """Return the settings of all brokers of a pool; the engine's defaults apply to the others."""
    config = _own(pool)
    for one, attributes, default in _copied():
        value: Any = reduce(lambda found, name: None if found is None else getattr(found, name), attributes, pool)
        if value is not None and value != default and one.key not in config:
            config[one.key] = _written(one.kind, value)
    if pool.replay is not None:
        config.pop("cursors", None)  # a replay has its own, whatever the pool's field says
    if pool.tiered_storage is not None and pool.tiered_storage.credentials is not None:
        config["tiered-storage"]["credentials-file"] = f"{SECRETS_DIRECTORY}/tiered-storage/credentials"
    return {one.key: config[one.key] for one in options_of(EngineConfig) if one.key in config}


def _own(pool: Pool) -> dict[str, Any]:
    """Return the settings that are no copies of fields."""
    config: dict[str, Any] = {
        "listen": f"{ALL_INTERFACES}:{PORT_PULSAR}",
        "http": f"{ALL_INTERFACES}:{PORT_HTTP}",
        "cache-size": _written(SIZE, pool.cache.size),  # also the default: requests of memory count on it
        "log-format": "json",
        "unknown-keys": "warn",  # an image of the release before this operator's does not know the newest keys
    }
    if pool.listeners.tls is not None:
        config["tls-listen"] = f"{ALL_INTERFACES}:{PORT_PULSAR_TLS}"
    for mount in mounts(pool):
        config |= mount.options()
    authentication = pool.source.authentication
    if authentication is not None and authentication.oauth2 is not None:
        config["admin-oauth2"] = oauth2_options(authentication.oauth2)
    if pool.locality.node_labels:
        config["locality-file"] = LOCALITY_FILE
    return config


@cache
def _copied() -> tuple[tuple[Option, tuple[str, ...], object], ...]:
    """Return the options that copy a field of a pool, with its attributes and its default. Files come from mounts."""
    return tuple(
        (one, *attributes_of(PoolSpec, one.field))
        for one in options_of(EngineConfig)
        if " " not in one.field and one.kind != FILE and one.key not in _ARGUMENTS
    )


def _written(kind: Kind[Any], value: Any) -> Any:
    """Return a field's value as the engine's option has it."""
    if kind == SIZE:
        return f"{value}B"  # 256Mi, as Kubernetes writes it, is 256MiB
    if kind.choices:
        return next(word for word in kind.choices if word.replace("-", "") == value.lower())
    if kind.declaring is None:
        return value
    given = by_json_name(value)
    return {
        one.key: _written(one.kind, given[name])
        for one in options_of(kind.declaring)
        if given.get(name := json_name(one.name)) and one.kind != FILE
    }
