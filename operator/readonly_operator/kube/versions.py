"""Versions of the project's API group: the one list of them, for definitions, documentation and tests.

All versions have the same schema, so the API server converts by changing `apiVersion` alone (conversion strategy `None`).
docs/reference/api-versions.md explains the choices, and has the promises for users.
"""

from __future__ import annotations

from readonly_operator.kube.names import GROUP

SERVED = ("v1alpha1", "v1beta1")
"""Versions that the definitions serve, the oldest first."""

STORAGE = "v1alpha1"
"""Version in which etcd has the objects.

The release before knows this version only. The API server refuses a definition that lacks a version in which objects may be
stored (`status.storedVersions`). So another storage version would refuse a rollback of the definitions.
"""

VERSION = "v1alpha1"
"""Version through which the operator reads and writes, also in owner references.

Helm does not upgrade definitions: this version exists in those of the release before too. Another version in owner references
would change every object of every pool.
"""


def in_group(api_version: object) -> bool:
    """Return whether an `apiVersion` is one of the project's group, in any version.

    Owner references may have another version: an operator of a later release wrote them before a rollback.
    """
    group, slash, version = str(api_version).partition("/")
    return (group, slash) == (GROUP, "/") and bool(version)
