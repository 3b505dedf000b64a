"""The error of the tool."""

from __future__ import annotations


class ToolError(Exception):
    """The command cannot be done; the text has the reason and the remedy."""
