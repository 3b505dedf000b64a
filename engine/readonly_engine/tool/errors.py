"""The one error of the tool."""

from __future__ import annotations


class ToolError(Exception):
    """What the user asked for cannot be done: says why, and what would be right."""
