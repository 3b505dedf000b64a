"""Registries that the containerd of each node uses without TLS, by containerd's hosts.toml.

containerd reads these files at each pull, so it needs no restart.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from devstack.errors import DevstackError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from devstack.kube.layout import Node


def folder(node: Node) -> Path:
    """Return the folder that containerd's `config_path` names."""
    return node.folder / "registries"


def hosts_toml(url: str) -> str:
    """Return the file of a registry.

    Args:
        url: of the registry, http:// or https://, without a path.
    """
    return f'server = "{url}"\n[host."{url}"]\n  capabilities = ["pull", "resolve"]\n'


def add(nodes: Iterable[Node], address: str, url: str) -> None:
    """Let nodes pull images of a registry by its URL.

    Args:
        nodes: running nodes.
        address: first part of the images' names, HOST:PORT.
        url: see `hosts_toml`.

    Raises:
        DevstackError: there is no node.
    """
    chosen = list(nodes)
    if not chosen:
        raise DevstackError("kube: no node runs", "start one with: python -m devstack kube up")
    for node in chosen:
        own = folder(node) / address
        own.mkdir(parents=True, exist_ok=True)
        (own / "hosts.toml").write_text(hosts_toml(url), encoding="utf-8")


def remove(nodes: Iterable[Node], address: str) -> None:
    """Undo `add`."""
    for node in nodes:
        shutil.rmtree(folder(node) / address, ignore_errors=True)
