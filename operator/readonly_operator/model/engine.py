"""The engine's configuration for a pool, as options of `pulsar-readonly serve --config`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from readonly_operator.api.cursors import DEFAULT_PARTITIONS, OWNER
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
    from readonly_operator.api.pool.limits import DispatchRate, Limits, TieredStorage

_COUNTS = ("max_connections", "max_connections_per_ip", "max_consumers_per_topic", "max_consumers_per_subscription")


def engine_config(pool: Pool) -> dict[str, Any]:
    """Return the settings of all brokers of a pool; the engine's defaults apply to the others."""
    source = pool.source
    config: dict[str, Any] = {
        "metadata-store-url": source.metadata_store_url,
        "service-url": source.service_url,
        "admin-url": source.admin_url,
        "listen": f"{ALL_INTERFACES}:{PORT_PULSAR}",
        "http": f"{ALL_INTERFACES}:{PORT_HTTP}",
        "cache-size": _size(pool.cache.size),
    }
    if source.bookkeeper_metadata_store_url is not None:
        config["bookkeeper-metadata-store-url"] = source.bookkeeper_metadata_store_url
    if pool.listeners.tls is not None:
        config["tls-listen"] = f"{ALL_INTERFACES}:{PORT_PULSAR_TLS}"
    for mount in mounts(pool):
        config |= mount.options()
    if source.authentication is not None and source.authentication.oauth2 is not None:
        config["admin-oauth2"] = oauth2_options(source.authentication.oauth2)
    if source.tls is not None:
        peers = (
            ("broker", source.tls.brokers),
            ("bookie", source.tls.bookies),
            ("metadata-store", source.tls.metadata_store),
        )
        for peer, tls in peers:
            if tls is not None and not tls.hostname_verification:
                config[f"{peer}-tls-hostname-verification"] = False
    login = source.metadata_store_login
    if login is not None and login.scheme != "Sasl":
        config["metadata-store-login-scheme"] = login.scheme.lower()
    if login is not None and login.node_rights != "Creator":
        config["metadata-store-node-rights"] = login.node_rights.lower()
    if pool.locality.node_labels:
        config["locality-file"] = LOCALITY_FILE
    if pool.lookup.unbound != "Redirect":
        config["lookup-unbound"] = pool.lookup.unbound.lower()
    if pool.cursors != OWNER:
        config["cursors"] = pool.cursors.lower()
    if pool.cursor_partitions != DEFAULT_PARTITIONS:
        config["cursor-partitions"] = pool.cursor_partitions
    config |= _limits(pool.limits)
    if pool.tiered_storage is not None:
        config["tiered-storage"] = _tiered_storage(pool.tiered_storage)
    if pool.log_level != "info":
        config["log-level"] = pool.log_level
    # an image of the release before this operator's does not know the newest keys
    return {**config, "log-format": "json", "unknown-keys": "warn"}


def _limits(limits: Limits) -> dict[str, Any]:
    config: dict[str, Any] = {
        name.replace("_", "-"): getattr(limits, name) for name in _COUNTS if getattr(limits, name)
    }
    if limits.max_buffered_bytes:
        config["max-buffered-bytes"] = _size(limits.max_buffered_bytes)
    for name in ("dispatch_rate_per_subscription", "dispatch_rate_per_broker"):
        rate: DispatchRate | None = getattr(limits, name)
        if rate is not None:
            config[name.replace("_", "-")] = _rate(rate)
    return config


def _rate(rate: DispatchRate) -> dict[str, Any]:
    return {
        **({"messages": rate.messages} if rate.messages else {}),
        **({"bytes": _size(rate.size)} if rate.size else {}),
    }


def _tiered_storage(tiered: TieredStorage) -> dict[str, Any]:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", tiered.read_priority.replace("BookKeeper", "Bookkeeper")).lower()
    config: dict[str, Any] = {"read-priority": words}
    for name in ("endpoint", "region", "bucket", "filesystem_root"):
        if getattr(tiered, name):
            config[name.replace("_", "-")] = getattr(tiered, name)
    if tiered.credentials is not None:
        config["credentials-file"] = f"{SECRETS_DIRECTORY}/tiered-storage/credentials"
    if tiered.cache_size:
        config["cache-size"] = _size(tiered.cache_size)
    return config


def _size(quantity: str) -> str:
    """Convert 256Mi, as Kubernetes writes it, to 256MiB, as the engine does."""
    return f"{quantity}B"
