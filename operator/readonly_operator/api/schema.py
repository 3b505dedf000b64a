"""Declarations of API fields: one declaration generates the schema in the custom resource definition and parses the value.

A spec is a frozen dataclass whose fields carry a declaration in their metadata:

    replicas: int = field(default=2, metadata=declare(Number(0, 1000), "How many brokers.", stored=True))

The attribute `service_url` is the JSON field `serviceUrl`. Rules about several fields are in the class's RULES, in the Common
Expression Language of the API server.
"""

from __future__ import annotations

import copy
import re
from dataclasses import MISSING, Field, dataclass, fields
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from readonly_operator.api.reader import ApiSpecError

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")

KEY = "declared"


class Schema(Protocol):
    """Protocol of a schema."""

    def openapi(self) -> dict[str, Any]:
        """Return the schema of a structural custom resource definition, without a description."""
        ...

    def parse(self, value: Any, path: str) -> Any:
        """Parse a JSON value.

        Raises:
            ApiSpecError: the value is invalid; the text names the field `path`.
        """
        ...


@dataclass(frozen=True, slots=True)
class Rule:
    """Rule that the API server checks.

    Attributes:
        rule: in CEL; `self` is the value.
        message: error message: the expected form.
        field_path: field named by the error, below the value; empty for the value itself.
        reason: FieldValueInvalid, FieldValueRequired or FieldValueForbidden; empty for the first.
    """

    rule: str
    message: str
    field_path: str = ""
    reason: str = ""

    def openapi(self) -> dict[str, str]:
        """Return an element of x-kubernetes-validations."""
        written = {"rule": self.rule, "message": self.message, "fieldPath": self.field_path, "reason": self.reason}
        return {name: value for name, value in written.items() if value}


@dataclass(frozen=True, slots=True)
class Declared:
    """Declaration of a field.

    Attributes:
        schema: schema of its value.
        description: purpose; `kubectl explain` shows it.
        required: whether it must be present; a text says in the operator's error what to give.
        stored: whether the API server writes the default into objects without the field.
        name: in JSON, unless derived from the attribute's.
    """

    schema: Schema
    description: str
    required: bool | str = False
    stored: bool = False
    name: str = ""


def declare(
    schema: Schema, description: str, *, required: bool | str = False, stored: bool = False, name: str = ""
) -> dict[str, Declared]:
    """Return the metadata of a dataclass field; see Declared."""
    return {KEY: Declared(schema, description, required, stored, name)}


@dataclass(frozen=True, slots=True)
class Text:
    """A string.

    Attributes:
        longest: most characters.
        pattern: a regular expression for the whole string, valid in both RE2 and Python; empty for any string.
        right: error message of a string that does not match: "must be ...".
        rules: further rules.
        cheap: whether the API server checks the schema's pattern alone, without a rule. The error is then less helpful, but
            rules about values deep inside lists exceed the API server's cost limit.
    """

    longest: int
    pattern: str = ""
    right: str = ""
    rules: tuple[Rule, ...] = ()
    cheap: bool = False

    def openapi(self) -> dict[str, Any]:
        """See Schema."""
        made: dict[str, Any] = {"type": "string", "maxLength": self.longest}
        rules = self.rules
        if self.pattern:
            made["pattern"] = f"^({self.pattern})$"  # for editors and checks that know no rules
        if self.pattern and not self.cheap:
            escaped = self.pattern.replace("\\", "\\\\").replace("'", "\\'")
            rules = (Rule(f"self.matches('^({escaped})$')", self.right), *rules)
        return _with_rules(made, rules)

    def parse(self, value: Any, path: str) -> str:
        """See Schema."""
        if not isinstance(value, str):
            raise ApiSpecError(f"{path} must be a string, not {type(value).__name__}")
        if self.pattern and not re.fullmatch(self.pattern, value):
            raise ApiSpecError(f"{path} {self.right}, not {value!r}")
        return value


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words."""

    words: tuple[str, ...]

    def openapi(self) -> dict[str, Any]:
        """See Schema."""
        return {"type": "string", "enum": list(self.words)}

    def parse(self, value: Any, path: str) -> str:
        """See Schema."""
        if value not in self.words:
            raise ApiSpecError(f"{path} must be one of {', '.join(self.words)}, not {value!r}")
        return str(value)


@dataclass(frozen=True, slots=True)
class Number:
    """A whole number.

    Attributes:
        least: the smallest allowed value.
        most: the largest allowed value; None for the type's limit.
        wide: whether it has 64 bits; else 32.
    """

    least: int = 0
    most: int | None = None
    wide: bool = False

    def openapi(self) -> dict[str, Any]:
        """See Schema."""
        made: dict[str, Any] = {
            "type": "integer",
            "format": "int64" if self.wide else "int32",
            "minimum": self.least,
        }
        if self.most is not None:
            made["maximum"] = self.most
        return made

    def parse(self, value: Any, path: str) -> int:
        """See Schema."""
        fits = isinstance(value, int) and not isinstance(value, bool)
        if not fits or value < self.least or (self.most is not None and value > self.most):
            limit = f"of at least {self.least}" if self.most is None else f"from {self.least} to {self.most}"
            raise ApiSpecError(f"{path} must be a whole number {limit}, not {value!r}")
        return int(value)


@dataclass(frozen=True, slots=True)
class Flag:
    """true or false."""

    def openapi(self) -> dict[str, Any]:
        """See Schema."""
        return {"type": "boolean"}

    def parse(self, value: Any, path: str) -> bool:
        """See Schema."""
        if not isinstance(value, bool):
            raise ApiSpecError(f"{path} must be true or false, not {value!r}")
        return value


@dataclass(frozen=True, slots=True)
class IntOrString:
    """A number or a string, as Kubernetes accepts quantities and percentages; parsed as text if it is a string.

    Attributes:
        pattern: a regular expression for the whole string, valid in the API server and Python.
        right: error message of a string that does not match: "must be ...".
        longest: most characters.
        rule: a cheaper rule of the API server than the pattern, for the error message. Kubernetes 1.30 takes the cost
            of a rule for that of a string of megabytes, whatever maxLength says, and refuses expensive ones in lists and maps.
    """

    pattern: str
    right: str
    longest: int = 32
    rule: str = ""

    def openapi(self) -> dict[str, Any]:
        """See Schema."""
        escaped = self.pattern.replace("\\", "\\\\").replace("'", "\\'")
        return {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": True,
            "maxLength": self.longest,
            "pattern": f"^({self.pattern})$",  # of a string; the rule also checks numbers
            "x-kubernetes-validations": [
                Rule(self.rule or f"string(self).matches('^({escaped})$')", self.right).openapi(),
            ],
        }

    def parse(self, value: Any, path: str) -> int | str:
        """See Schema."""
        if isinstance(value, bool) or not isinstance(value, int | str) or not re.fullmatch(self.pattern, str(value)):
            raise ApiSpecError(f"{path} {self.right}, not {value!r}")
        return value


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list.

    Attributes:
        item: schema of its items.
        most: largest number of items.
        least: smallest number.
        unique: whether items must differ.
        keys: for objects: fields that identify an item.
        rules: of the list.
    """

    item: Schema
    most: int
    least: int = 0
    unique: bool = False
    keys: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()

    def openapi(self) -> dict[str, Any]:
        """See Schema."""
        made: dict[str, Any] = {"type": "array", "maxItems": self.most}
        if self.least:
            made["minItems"] = self.least
        if self.unique:
            made["x-kubernetes-list-type"] = "set"
        if self.keys:
            made |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(self.keys)}
        return _with_rules({**made, "items": self.item.openapi()}, self.rules)

    def parse(self, value: Any, path: str) -> tuple[Any, ...]:
        """See Schema."""
        if not isinstance(value, list):
            raise ApiSpecError(f"{path} must be a list, not {type(value).__name__}")
        if not self.least <= len(value) <= self.most:
            raise ApiSpecError(f"{path} must have {self.least} to {self.most} items, not {len(value)}")
        return tuple(self.item.parse(item, f"{path}[{index}]") for index, item in enumerate(value))


@dataclass(frozen=True, slots=True)
class MapOf:
    """An object with any keys.

    Attributes:
        value: schema of its values.
        most: largest number of keys.
        rules: of the object.
    """

    value: Schema
    most: int
    rules: tuple[Rule, ...] = ()

    def openapi(self) -> dict[str, Any]:
        """See Schema."""
        made = {"type": "object", "maxProperties": self.most, "additionalProperties": self.value.openapi()}
        return _with_rules(made, self.rules)

    def parse(self, value: Any, path: str) -> dict[str, Any]:
        """See Schema."""
        if not isinstance(value, dict):
            raise ApiSpecError(f"{path} must be an object, not {type(value).__name__}")
        return {key: self.value.parse(one, f"{path}.{key}") for key, one in value.items()}


@dataclass(frozen=True, slots=True)
class Record:
    """An object that stays JSON, to be copied to Kubernetes objects.

    Attributes:
        properties: its fields.
        rules: of the object.
        atomic: whether it is replaced as a whole.
    """

    properties: Mapping[str, Declared]
    rules: tuple[Rule, ...] = ()
    atomic: bool = False

    def openapi(self) -> dict[str, Any]:
        """See Schema."""
        made: dict[str, Any] = {"type": "object"}
        if self.atomic:
            made["x-kubernetes-map-type"] = "atomic"
        return _object(made, {name: (one, MISSING) for name, one in self.properties.items()}, self.rules)

    def parse(self, value: Any, path: str) -> dict[str, Any]:
        """See Schema."""
        if not isinstance(value, dict):
            raise ApiSpecError(f"{path} must be an object, not {type(value).__name__}")
        for name, one in self.properties.items():
            if value.get(name) is None and one.required:
                raise ApiSpecError(_missing(one, f"{path}.{name}"))
            if value.get(name) is not None:
                one.schema.parse(value[name], f"{path}.{name}")
        return copy.deepcopy(value)


@dataclass(frozen=True, slots=True)
class Nested:
    """An object that is parsed as a dataclass of declared fields."""

    cls: type[Any]

    def openapi(self) -> dict[str, Any]:
        """See Schema."""
        declared: dict[str, tuple[Declared, object]] = {
            name_of(one): (one.metadata[KEY], one.default) for one in fields(self.cls) if KEY in one.metadata
        }
        return _object({"type": "object"}, declared, getattr(self.cls, "RULES", ()))

    def parse(self, value: Any, path: str) -> Any:
        """See Schema."""
        return load(self.cls, value, path)


def load(cls: type[T], value: Any, path: str) -> T:
    """Parse the declared fields of an object into the dataclass; absent fields have their defaults.

    Args:
        cls: a dataclass with declared fields.
        value: JSON.
        path: name of the object, for errors.

    Raises:
        ApiSpecError: a field is missing or invalid; the text names it.
    """
    return cls(**declared_values(cls, value, path))


def declared_values(cls: type[Any], value: Any, path: str) -> dict[str, Any]:
    """Parse the declared fields into keyword arguments.

    Raises:
        ApiSpecError: see load.
    """
    if not isinstance(value, dict):
        raise ApiSpecError(f"{path} must be an object, not {type(value).__name__}")
    values: dict[str, Any] = {}
    for one in fields(cls):
        declared: Declared | None = one.metadata.get(KEY)
        if declared is None:
            continue
        name = name_of(one)
        given = value.get(name)
        if given is None or given == "":
            if declared.required and one.default is MISSING:
                if not isinstance(declared.schema, Nested):
                    raise ApiSpecError(_missing(declared, f"{path}.{name}"))
                values[one.name] = declared.schema.parse({}, f"{path}.{name}")  # names the first field that is missing
        else:
            values[one.name] = declared.schema.parse(given, f"{path}.{name}")
    return values


def _missing(declared: Declared, path: str) -> str:
    """Return the error about a required field that is absent."""
    return f"{path} is missing" + (f": {declared.required}" if isinstance(declared.required, str) else "")


def json_name(attribute: str) -> str:
    """Return the JSON name of a dataclass's attribute."""
    head, *tail = attribute.split("_")
    return head + "".join(_INITIALISMS.get(word, word.capitalize()) for word in tail)


def name_of(attribute: Field[Any]) -> str:
    """Return the JSON name of a declared field."""
    return attribute.metadata[KEY].name or json_name(attribute.name)


_INITIALISMS = {"cpu": "CPU"}
"""Words that Kubernetes' own fields write in capitals (targetCPUUtilizationPercentage)."""


def _object(
    made: dict[str, Any], declared: Mapping[str, tuple[Declared, object]], rules: tuple[Rule, ...]
) -> dict[str, Any]:
    required = [name for name, (one, _) in declared.items() if one.required]
    if required:
        made["required"] = required
    made = _with_rules(made, rules)
    made["properties"] = {name: described(one, default) for name, (one, default) in declared.items()}
    return made


def described(declared: Declared, default: object = MISSING) -> dict[str, Any]:
    """Return a field's schema with its description, and its default if the API server stores it."""
    nested = isinstance(declared.schema, Nested)
    plain = isinstance(default, bool | int | str) and default != ""
    words = "Required. " if declared.required else ""
    words += declared.description
    if plain and not nested:
        words += f" Default: {str(default).lower() if isinstance(default, bool) else default}."
    made: dict[str, Any] = {"description": words, **declared.schema.openapi()}
    if declared.stored:
        # complete, because the API server checks the rules before it fills in nested defaults
        made["default"] = _stored(declared.schema.cls) if isinstance(declared.schema, Nested) else default
    return made


def _stored(cls: type[Any]) -> dict[str, Any]:
    """Return the object that the API server makes of an empty one."""
    made = {}
    for one in fields(cls):
        declared: Declared | None = one.metadata.get(KEY)
        if declared is not None and declared.stored:
            nested = declared.schema
            made[name_of(one)] = _stored(nested.cls) if isinstance(nested, Nested) else one.default
    return made


def _with_rules(made: dict[str, Any], rules: tuple[Rule, ...]) -> dict[str, Any]:
    if rules:
        made["x-kubernetes-validations"] = [rule.openapi() for rule in rules]
    return made
