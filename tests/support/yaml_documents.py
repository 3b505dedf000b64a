"""YAML by the parser in C: that in Python needs 2 s for the definition of a pool."""

from collections.abc import Iterator
from typing import IO, Any, Final

import yaml

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load_yaml(source: str | bytes | IO[str] | IO[bytes]) -> Any:
    """The only document."""
    return yaml.load(source, _LOADER)


def load_all_yaml(source: str | bytes | IO[str] | IO[bytes]) -> Iterator[Any]:
    """The documents."""
    return yaml.load_all(source, _LOADER)
