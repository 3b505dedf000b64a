"""Attributes' descriptions out of a class's docstring."""

from __future__ import annotations

import inspect
import re

_ITEM = re.compile(r"^    (\w+): (.*(?:\n {8,}.*)*)", re.MULTILINE)


def attributes(documented: type) -> dict[str, str]:
    """Return the section `Attributes:` of a class by attribute.

    Args:
        documented: a class whose docstring has that section.

    Raises:
        ValueError: the docstring has no such section.
    """
    text = inspect.cleandoc(documented.__doc__ or "")
    _, found, section = text.partition("\nAttributes:\n")
    if not found:
        raise ValueError(f"{documented.__name__} has no section Attributes")
    return {name: " ".join(words.split()) for name, words in _ITEM.findall(section)}
