"""Hashes of JSON values: the same value always gives the same text."""

from __future__ import annotations

import hashlib
import json

LENGTH = 16
"""Hexadecimal digits: 64 bits, enough to tell apart the states of one object."""


def digest(value: object) -> str:
    """Hash of a JSON value; the order of keys does not matter."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:LENGTH]
