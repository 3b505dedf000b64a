"""The error that ends an export."""

from __future__ import annotations


class ExportError(Exception):
    """An export that cannot start or resume; the message names the remedy."""
