"""What ends an export."""

from __future__ import annotations


class ExportError(Exception):
    """An export that cannot be made, or not be gone on with: says what would be right."""
