"""The error of specs that cannot be used."""

from __future__ import annotations


class ApiSpecError(ValueError):
    """A spec that cannot be used; the text names the field and says what would be right.

    The schemas refuse such objects when they are written; this is for objects that were stored under an older schema.
    """
