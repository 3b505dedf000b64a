"""Right and wrong values of every field of a spec, made from its schema: a new field needs no row anywhere."""

import functools
import re
from collections.abc import Iterator
from typing import Any

from readonly_operator.api.crds import DEFINITIONS

WORDS = (
    "example",
    "Example",
    "384Mi",
    "40%",
    "40s",
    "pulsar://example.com:6650",
    "https://example.com",
    "zk:example.com:2181",
    "oxia://example.com:6648",
    "example.com/example",
    "/example",
    "10.1.0.0/16",
    "10.1.0.1",
    "persistent://public/default/example",
    "public/example",
    "{broker}.example.com",
    "PULSAR_PREFIX_bookkeeperExplicitLacIntervalInMills",
    "2026-11-21T14:00:00Z",
    "0.5",
)
"""Texts of which the first that fits is a field's example. A new pattern may need one more."""


@functools.cache
def schema(kind: str) -> dict[str, Any]:
    """The schema of a kind's spec."""
    definition = next(one for one in DEFINITIONS if one.kind.kind == kind)
    return definition.manifest()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]


def example(schema: dict[str, Any]) -> Any:
    """The smallest right value that is not the default.

    Raises:
        LookupError: no text fits: add one to WORDS.
    """
    default = schema.get("default")
    if schema.get("x-kubernetes-int-or-string") or schema["type"] == "string":
        words = schema["enum"][::-1] if "enum" in schema else WORDS
        found = next((word for word in words if _fits(word, schema)), None)
        if found is None and "enum" not in schema:
            raise LookupError(f"no word fits: {schema}")
        return found or words[0]
    if schema["type"] == "integer":
        return next(number for number in (schema["minimum"] + 7, schema.get("maximum")) if _bounded(number, schema))
    if schema["type"] == "boolean":
        return not (default if default is not None else "Default: true" in schema["description"])
    if schema["type"] == "array":
        return [example(schema["items"])]
    if "additionalProperties" in schema:
        return {"example": example(schema["additionalProperties"])}
    return {name: example(schema["properties"][name]) for name in schema.get("required", ())}


def _bounded(number: int | None, schema: dict[str, Any]) -> bool:
    return number is not None and number <= schema.get("maximum", number) and number != schema.get("default")


def _fits(word: str, schema: dict[str, Any]) -> bool:
    described = f"Default: {word}."  # of a default that the API server does not store
    return (
        word != schema.get("default")
        and described not in schema.get("description", "")
        and len(word) <= schema.get("maxLength", len(word))
        and re.search(schema.get("pattern", ""), word) is not None
    )


def full(schema: dict[str, Any]) -> Any:
    """A value with every field below it."""
    if schema.get("type") == "array":
        return [full(schema["items"])]
    if schema.get("properties"):
        return {name: full(one) for name, one in schema["properties"].items()}
    return example(schema)


def leaves(schema: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], dict[str, Any], Any]]:
    """Each field without fields of its own, or with a list: its path, its schema, and a spec with it and what it needs."""
    if not schema.get("properties"):
        yield path, schema, full(schema)
        return
    beside = example(schema)
    for name, one in schema["properties"].items():
        for inner, of, value in leaves(one, (*path, name)):
            yield inner, of, {**beside, name: value}


def without(spec: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """A spec without a field."""
    name, *rest = path
    if not rest:
        return {key: value for key, value in spec.items() if key != name}
    return {**spec, name: without(spec[name], tuple(rest))}


def merged(spec: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """A spec with the fields of another, which win."""
    both = {
        name for name in spec.keys() & other.keys() if isinstance(spec[name], dict) and isinstance(other[name], dict)
    }
    return {**spec, **other, **{name: merged(spec[name], other[name]) for name in both}}


def wrong_values(schema: dict[str, Any]) -> list[Any]:
    """Values that a field's schema refuses: another type, beyond its bounds, another word, another form."""
    if schema.get("x-kubernetes-int-or-string"):
        return [True, "much %"]
    found: list[Any] = [{"string": 7, "integer": "seven", "boolean": "yes", "array": {}, "object": []}[schema["type"]]]
    found += [schema["minimum"] - 1] if "minimum" in schema else []
    found += [schema["maximum"] + 1] if "maximum" in schema else []
    found += ["Nonsense!"] if "enum" in schema else []
    found += (
        [next(text for text in ("!", " ", "\n") if not re.search(schema["pattern"], text))]
        if "pattern" in schema
        else []
    )
    found += [[full(schema["items"])] * (schema["maxItems"] + 1)] if "maxItems" in schema else []
    return found


def replaced(spec: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """A spec with another value of a field."""
    name, *rest = path
    return {**spec, name: replaced(spec[name], tuple(rest), value) if rest else value}
