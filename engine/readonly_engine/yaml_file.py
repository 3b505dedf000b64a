"""Files of YAML that people and the operator write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from pathlib import Path

# The C parser also bounds how deep things nest; the one in Python takes seconds for a few thousand brackets (measured).
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class YamlFileError(Exception):
    """The file cannot be read, or is not YAML."""


def parse_yaml(text: str) -> Any:
    """The document in a text.

    Raises:
        YamlFileError: it is not YAML.
    """
    try:
        return yaml.load(text, Loader=_LOADER)  # noqa: S506 - a safe loader
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        # PyYAML lets a date such as 0000-00-00 raise a ValueError.
        raise YamlFileError(f"not YAML: {error}") from error


def read_yaml(path: Path, what: str) -> Any:
    """The document in a file.

    Args:
        path: the file.
        what: what it is to the user, for the error: the option or kind of file.

    Raises:
        YamlFileError: it cannot be read, or is not YAML.
    """
    try:
        return parse_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise YamlFileError(f"{what} {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise YamlFileError(f"{what} {path} is not YAML: {error}") from error
    except YamlFileError as error:
        raise YamlFileError(f"{what} {path} is {error}") from error
