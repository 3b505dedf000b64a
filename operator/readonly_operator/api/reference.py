"""Generate docs/reference/api.md from the custom resource definitions: `python -m readonly_operator.api.reference FILE`."""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from readonly_operator.api.crds import DEFINITIONS
from readonly_operator.api.values import DATA_KEY, OBJECT_NAME
from readonly_operator.kube.names import GROUP, VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HEAD = f"""# API reference

<!-- Made by `make crds` from operator/readonly_operator/api/; do not edit. -->

Group `{GROUP}`, version `{VERSION}` ([API versions](api-versions.md)).
`kubectl explain robp.spec --recursive` prints the same.
Sizes are whole numbers of Ki, Mi or Gi. A rule for several fields is listed at the object that has them.
"""
FOREIGN = (
    *(f"spec.podTemplate.{name}" for name in ("affinity", "tolerations", "volumes", "volumeMounts", "env")),
    "spec.networkPolicy.clients",
    "spec.networkPolicy.monitoring",
    "status.conditions",
    "status.source.spec",
)
"""Fields with parts of Kubernetes' own API; the page does not list those parts."""
PLAIN = (OBJECT_NAME.right, DATA_KEY.right)
"""Rules that need no words."""


def page() -> str:
    """Return the whole page, Markdown."""
    parts = [HEAD]
    for one in DEFINITIONS:
        version = one.manifest()["spec"]["versions"][0]
        schema = version["schema"]["openAPIV3Schema"]
        parts.append(f"## {one.kind.kind}\n")
        parts.append(f"Short name `{one.short}`. {schema['description']}\n")
        parts += [f"* {rule['message']}" for rule in schema.get("x-kubernetes-validations", ())]
        for section in ("spec", "status"):
            parts.append(f"\n### {one.kind.kind} {section}\n")
            parts.append("| field | type | meaning |\n|---|---|---|")
            parts += list(_rows(schema["properties"][section], section))
        parts.append(f"\n### Columns of `kubectl get {one.short}`\n")
        parts.append("| column | meaning |\n|---|---|")
        parts += [
            f"| {column['name']}{' (`-o wide`)' if column.get('priority') else ''} | {_cell(column['description'])} |"
            for column in version["additionalPrinterColumns"]
        ]
        parts.append("")
    return "\n".join(parts)


def _rows(schema: dict[str, Any], path: str) -> Iterator[str]:
    """Yield a row for each field below an object, an object before its own fields."""
    for name, field in schema.get("properties", {}).items():
        where = f"{path}.{name}"
        yield f"| `{where}` | {_cell(_type(field))} | {_cell(' '.join([field['description'], *_rules(field)]))} |"
        if where in FOREIGN:
            continue
        yield from _rows(field, where)
        if field.get("type") == "array":
            yield from _rows(field["items"], f"{where}[]")


def _type(field: dict[str, Any]) -> str:
    """Return a field's type in a word or two, with its bounds."""
    if field.get("x-kubernetes-int-or-string"):
        return "number or string"
    if "enum" in field:
        return " or ".join(f"`{word}`" for word in field["enum"] if word)
    if field["type"] == "array":
        return f"list of {_type(field['items'])}, up to {field['maxItems']}"
    if field["type"] == "object" and "additionalProperties" in field:
        return f"map to {_type(field['additionalProperties'])}"
    if field["type"] == "integer" and "maximum" in field:
        return f"integer, {field['minimum']} to {field['maximum']}"
    return str(field["type"])


def _rules(field: dict[str, Any]) -> Iterator[str]:
    """Yield the rules of a field, in the words of their error messages."""
    nodes = [field, field.get("items") or {}, field.get("additionalProperties") or {}]
    for rule in (rule for node in nodes for rule in node.get("x-kubernetes-validations", ())):
        if rule.get("reason") != "FieldValueRequired" and rule["message"] not in PLAIN:
            where = f"`{rule['fieldPath'].lstrip('.')}` " if rule.get("fieldPath") else "It "
            message = rule["message"]
            plain = message if re.match("must|cannot|is|would|can ", message) else f"must hold: {message}"
            yield f"{where}{plain}."
    if "default" in field and isinstance(field["default"], dict):
        yield f"Default: `{json.dumps(field['default'])}`."


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main(argv: Sequence[str] | None = None) -> int:
    """Write the page.

    Returns:
        The exit status: 1 when the file cannot be written.
    """
    parser = argparse.ArgumentParser(prog="python -m readonly_operator.api.reference", description=__doc__)
    parser.add_argument("file", type=Path, help="it is written there, for example docs/reference/api.md")
    path = parser.parse_args(argv).file
    try:
        path.write_text(page(), encoding="utf-8")
    except OSError as error:
        sys.stderr.write(f"python -m readonly_operator.api.reference: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
