"""Namespaces that the operator serves, and those of them that it cannot read at present.

A deleted namespace takes its Role and RoleBinding with it. The API server answers 403 then, as for a RoleBinding that somebody
removed: the two cannot be told apart. Neither may end the operator, which serves the other namespaces.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

logger = logging.getLogger(__name__)

ALL = "*"
"""Name of the scope of an operator that serves all namespaces."""


class Scopes:
    """State of the served namespaces. Thread-safe.

    Known objects of a lost namespace stay as they are: its bindings may be in use, and its pools run on without the operator.

    Args:
        names: namespaces of the settings; empty for all.
    """

    def __init__(self, names: tuple[str, ...] = ()) -> None:
        self._names: tuple[str | None, ...] = names or (None,)
        self._lock = threading.Lock()
        self._lost: Mapping[str | None, str] = {}

    @property
    def names(self) -> tuple[str | None, ...]:
        """Return the served namespaces; one None for all."""
        return self._names

    @property
    def lost(self) -> Mapping[str | None, str]:
        """Return the namespaces that cannot be read, with the reason."""
        return self._lost

    def problem(self, namespace: str) -> str:
        """Return why a namespace cannot be read; empty while it can, and for one that is not served."""
        return self._lost.get(namespace) or self._lost.get(None, "")

    def states(self) -> dict[str, bool]:
        """Return whether each served namespace can be read; ALL stands for all namespaces."""
        return {name or ALL: name not in self._lost for name in self._names}

    def lose(self, name: str | None, reason: str) -> None:
        """Record that a namespace cannot be read.

        Args:
            name: the namespace; None for all.
            reason: the API server's refusal.
        """
        with self._lock:
            known = name in self._lost
            self._lost = {**self._lost, name: reason}
        if not known:
            logger.warning(
                "namespace not readable, trying again: namespace=%s error=%s; if it or its RoleBinding is gone for good, "
                "remove it from the operator's namespaces",
                name or ALL,
                reason,
            )

    def regain(self, name: str | None) -> None:
        """Record that a namespace can be read."""
        with self._lock:
            if name not in self._lost:
                return
            self._lost = {one: reason for one, reason in self._lost.items() if one != name}
        logger.info("namespace readable again: namespace=%s", name or ALL)
