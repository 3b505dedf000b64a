"""JSON Schema of the configuration file of a broker, made from the declarations of its options.

Editors and pipelines check files with it. A broker checks more: options against each other, and the files that they name.
"""

from __future__ import annotations

from typing import Any, Final

from readonly_engine.config.option import Option, options_of
from readonly_engine.config.settings import EngineConfig

DRAFT: Final = "http://json-schema.org/draft-07/schema#"
"""The version that editors and Helm support."""

TITLE: Final = "Configuration file of pulsar-readonly serve"


def document() -> dict[str, Any]:
    """Return the schema of the whole file. No key is required, because the command line can give any of them."""
    return {"$schema": DRAFT, "title": TITLE, **_mapping(EngineConfig)}


def _mapping(declaring: type) -> dict[str, Any]:
    """Return the schema of a mapping that a dataclass declares."""
    properties = {one.key: _described(one) for one in options_of(declaring)}
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _described(one: Option) -> dict[str, Any]:
    help_ = " ".join(one.help.split())
    text = f"{help_[:1].upper()}{help_[1:]}."
    if one.default:
        text += f" Default: {one.default}{f' ({one.unset})' if one.unset else ''}."
    elif one.unset:
        text += f" Default: {one.unset}."
    return {"description": text, **_values(one)}


def _values(one: Option) -> dict[str, Any]:
    """Return the schema of an option's values."""
    kind = one.kind
    if kind.schema is not None:
        return dict(kind.schema)
    if kind.choices:
        return {"enum": [str(choice) for choice in kind.choices]}
    text = {"type": "string", "minLength": 1}
    if kind.declaring is not None:
        return {
            "anyOf": [
                {**_mapping(kind.declaring), **kind.rules},
                {**text, "description": "the mapping as a text of YAML"},
            ]
        }
    return text
