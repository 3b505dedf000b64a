"""YAML files of users and of the operator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from pathlib import Path

# The C parser also bounds the depth of nesting; the one in Python takes seconds for a few thousand brackets (measured).
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class YamlFileError(Exception):
    """An unreadable file, or one that is not YAML."""


def parse_yaml(text: str) -> Any:
    """Return the document in a text.

    Raises:
        YamlFileError: the text is not YAML.
    """
    try:
        return yaml.load(text, Loader=_LOADER)  # noqa: S506 - a safe loader
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        # PyYAML lets a date such as 0000-00-00 raise a ValueError.
        raise YamlFileError(f"not YAML: {error}") from error


def read_yaml(path: Path, what: str) -> Any:
    """Return the document in a file.

    Args:
        path: the file.
        what: option or kind of the file, for errors.

    Raises:
        YamlFileError: the file cannot be read, or is not YAML.
    """
    try:
        return parse_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise YamlFileError(f"{what} {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise YamlFileError(f"{what} {path} is not YAML: {error}") from error
    except YamlFileError as error:
        raise YamlFileError(f"{what} {path} is {error}") from error
