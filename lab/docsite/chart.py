"""Generate charts/pulsar-readonly/README.md: each value with its type, default and meaning.

Defaults and meanings are those of values.yaml and its comments, types those of values.schema.json.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from docsite.markdown import NOTE, code, table

if TYPE_CHECKING:
    from collections.abc import Iterator

CHART: Final = Path(__file__).resolve().parents[2] / "charts" / "pulsar-readonly"
HEAD: Final = f"""# pulsar-readonly

{NOTE}

The operator of pools of read-only brokers for Apache Pulsar. The project's `docs/how-to/install.md` describes installation, upgrade
(definitions first: Helm never changes one) and removal. `values.schema.json` refuses values that are not in this table.

## Values
"""
_TRAILING: Final = re.compile(r"\s#\s(.*)$")


def page() -> str:
    """Return the whole file, Markdown."""
    text = (CHART / "values.yaml").read_text(encoding="utf-8")
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    rows = _rows(yaml.compose(text), text.splitlines(), schema, schema["definitions"])
    return HEAD + table(("value", "type", "default", "meaning"), rows) + "\n"


def _rows(
    node: yaml.Node | None, lines: list[str], schema: dict[str, Any], definitions: dict[str, Any], prefix: str = ""
) -> Iterator[list[str]]:
    """Yield the rows of a mapping: of each value, and of an inner mapping that has a comment."""
    assert isinstance(node, yaml.MappingNode)
    for key, value in node.value:
        name = f"{prefix}{key.value}"
        inner = _resolved(schema["properties"][key.value], definitions)
        meaning = _comment(lines, key.start_mark.line)
        if "properties" not in inner:
            default = json.dumps(yaml.safe_load(yaml.serialize(value)))
            yield [code(name), _type(inner, definitions), code(default), meaning]
            continue
        if meaning:
            yield [code(name), "object", "", meaning]
        yield from _rows(value, lines, inner, definitions, f"{name}.")


def _comment(lines: list[str], at: int) -> str:
    """Return the comment lines directly above a key, and the comment after its value."""
    first = at
    while first and lines[first - 1].lstrip().startswith("#"):
        first -= 1
    found = [line.lstrip(" #") for line in lines[first:at]]
    trailing = _TRAILING.search(lines[at])
    return " ".join([*found, *([trailing[1]] if trailing else [])])


def _resolved(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the schema that a reference names, or the schema itself."""
    return definitions[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema


def _type(schema: dict[str, Any], definitions: dict[str, Any]) -> str:
    """Return the type of a value, or the values that it may have."""
    if "enum" in schema:
        return ", ".join(code(json.dumps(one)) for one in schema["enum"])
    for one in schema.get("anyOf", ()):
        if "const" not in one:
            schema = _resolved(one, definitions)
    return str(schema["type"])
