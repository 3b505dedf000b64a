"""Quantities in the API server's canonical form, so that an applied object can be compared with the live one."""

from __future__ import annotations

import re
from fractions import Fraction

_BINARY = {"Ei": 1 << 60, "Pi": 1 << 50, "Ti": 1 << 40, "Gi": 1 << 30, "Mi": 1 << 20, "Ki": 1 << 10}
_DECIMAL = {
    "E": Fraction(10**18),
    "P": Fraction(10**15),
    "T": Fraction(10**12),
    "G": Fraction(10**9),
    "M": Fraction(10**6),
    "k": Fraction(10**3),
    "": Fraction(1),
    "m": Fraction(1, 10**3),
    "u": Fraction(1, 10**6),
    "n": Fraction(1, 10**9),
}
_PARTS = re.compile(r"([0-9]+(?:\.[0-9]+)?)([a-zA-Z]*)")


def canonical(quantity: int | str) -> str:
    """Return a quantity in Kubernetes' canonical form (resource.Quantity): no fraction, and the largest suffix that needs none.

    Exponents (1e3) and invalid quantities are returned unchanged; the API server rejects invalid ones.
    """
    match = _PARTS.fullmatch(str(quantity))
    if match is None:
        return str(quantity)
    number, suffix = Fraction(match[1]), match[2]
    if suffix in _BINARY:
        value = number * _BINARY[suffix]
        if value >= 1 << 10:
            for name, size in _BINARY.items():
                if (value / size).denominator == 1:
                    return f"{value // size}{name}"
        return _decimal(value)
    return _decimal(number * _DECIMAL[suffix]) if suffix in _DECIMAL else str(quantity)


def _decimal(value: Fraction) -> str:
    if value == 0:
        return "0"
    for name, size in _DECIMAL.items():
        if (value / size).denominator == 1:
            return f"{value // size}{name}"
    return f"{-(-value // _DECIMAL['n'])}n"  # Kubernetes rounds up to its finest unit
