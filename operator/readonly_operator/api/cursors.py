"""Fields of pools and bindings about local cursors: the keeper of cursors, and their release on deletion."""

from __future__ import annotations

OWNER = "Owner"
LOCAL = "Local"
KEEPERS = (OWNER, LOCAL)
"""Keepers of subscriptions' cursors: the topic's owner broker, or the pool."""

KEEP = "Keep"
RELEASE = "Release"
ON_DELETION = (KEEP, RELEASE)
"""Action on local cursors when a pool or a binding is deleted."""

DEFAULT_PARTITIONS = 16
MAX_PARTITIONS = 1024
"""Partitions of a namespace's topic with cursors: the engine's default, and its limit."""
