"""YAML by the parser in C: that in Python needs 2 s for the definition of a pool."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any, Final

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load_yaml(source: str | bytes | IO[str] | IO[bytes]) -> Any:
    """The only document."""
    return yaml.load(source, _LOADER)


def load_all_yaml(source: str | bytes | IO[str] | IO[bytes]) -> Iterator[Any]:
    """The documents."""
    return yaml.load_all(source, _LOADER)
