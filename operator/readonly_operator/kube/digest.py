"""Hashes of JSON values: equal values have equal hashes."""

from __future__ import annotations

import hashlib
import json

LENGTH = 16
"""Hexadecimal digits: 64 bits, enough to tell apart the states of one object."""


def digest(value: object) -> str:
    """Return the hash of a JSON value; the order of keys does not matter."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:LENGTH]
