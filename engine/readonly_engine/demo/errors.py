"""The error of the demo."""

from __future__ import annotations


class DemoError(Exception):
    """The demo cannot go on; the text has the reason and the remedy."""
