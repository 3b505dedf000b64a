"""Declarations of options: a dataclass field with its kind of value and its help is all that an option needs.

Its flag, its key in the YAML file, its line in `--help`, its row in the reference pages and its errors come from there.
"""

from __future__ import annotations

import re
import reprlib
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from readonly_engine.config.nearest import nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")

SET_BY_OPERATOR: Final = "the operator sets it"
NO_FIELD: Final = "no field"

_DECLARATION: Final = "option"
_OTHER_NAMES: Final = {
    "web-service-url": "admin-url",
    "bookkeeper-metadata-service-uri": "bookkeeper-metadata-store-url",
    "namespaces": "topics",
}
"""Names of the same settings in broker.conf and in the custom resources, with dashes, that are not similar. Errors name the key
instead of accepting a second one: a file has one name for one setting."""

_MAX_SHOWN: Final = 200
"""Characters of an invalid value that its error shows."""


class ConfigError(ValueError):
    """An invalid or missing option: the text names it, its value and the expected form."""


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """A kind of values.

    Attributes:
        form: the value in help and reference pages, for example HOST:PORT.
        expected: the expected form in errors, after 'must be'.
        read: converts what the YAML file or the command line has; None for another form. It may raise ConfigError with a text of
            its own, where the form is right and the value is not.
        write: converts a default back to the form in which users write it.
        choices: all values, where they are few.
        several: whether the value is a list, of separate arguments on the command line.
        declaring: dataclass that declares the keys, where the value is a mapping.
        schema: JSON Schema of the values in the file; None for a non-empty text, and for the kinds that the other attributes
            describe: choices, and mappings.
        rules: rules of JSON Schema for the mapping as a whole, besides those of its keys.
    """

    form: str
    expected: str
    read: Callable[[object], T | None]
    write: Callable[[T], str] = str
    choices: tuple[str, ...] = ()
    several: bool = False
    declaring: type | None = None
    schema: Mapping[str, Any] | None = field(default=None, compare=False)
    rules: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def parse(self, value: object) -> T:
        """Convert a value of the YAML file or the command line.

        Raises:
            ConfigError: the value has another form.
        """
        found = self.read(value)
        if found is None:
            raise ConfigError(f"must be {self.expected}, not {shown(value)}")
        return found


@dataclass(frozen=True, slots=True)
class _Declaration:
    """See `option`."""

    kind: Kind[Any]
    help: str
    unit: str
    unset: str
    group: str
    field: str


def option(
    kind: Kind[Any], text: str, *, unit: str = "", unset: str = "", group: str = "", field: str = ""
) -> dict[str, _Declaration]:
    """Return the metadata that makes a dataclass field an option.

    Args:
        kind: the kind of its values.
        text: its help, without a full stop.
        unit: unit of a number.
        unset: meaning of the default in words, where it is no value or a special one, for example 'no limit'.
        group: title of the group of options that begins here; the fields below belong to it.
        field: of a setting of brokers: its field of a pool's spec, or after `binding: ` of a binding's, as in
            docs/reference/names.md; or SET_BY_OPERATOR or NO_FIELD.
    """
    return {_DECLARATION: _Declaration(kind, text, unit, unset, group, field)}


@dataclass(frozen=True, slots=True)
class Option:
    """An option, as its field declares it.

    Attributes:
        name: of the field.
        kind: of its values.
        help: the description, without a full stop.
        unit: of a number; empty for other values.
        group: title of its group.
        required: whether it has no default.
        default: as users write it; empty for no value.
        unset: meaning of the default in words; empty where the default says it.
        field: as in `option`.
    """

    name: str
    kind: Kind[Any]
    help: str
    unit: str
    group: str
    required: bool
    default: str
    unset: str
    field: str

    @property
    def key(self) -> str:
        """Key in the YAML file."""
        return key_of(self.name)

    @property
    def flag(self) -> str:
        """Flag of the command line."""
        return f"--{self.key}"


def help_of(one: Option) -> str:
    """Return the text of an option in --help: its help, and its default."""
    if one.default and one.unset:
        default = f" (default {one.default}: {one.unset})"
    elif one.default:
        default = f" (default {one.default})"
    else:
        default = f" (default: {one.unset})" if one.unset else ""
    return f"{one.help}{default}".replace("%", "%%")


def argument_form(kind: Kind[Any]) -> dict[str, Any]:
    """Return the keywords of argparse for the values of a kind. Choices are words, accepted in any case of letters."""
    return {"choices": kind.choices, "type": str.lower} if kind.choices else {"metavar": kind.form}


def key_of(name: str) -> str:
    """Return the key of a field."""
    return name.replace("_", "-")


@cache
def options_of(declaring: type) -> tuple[Option, ...]:
    """Return the options of a dataclass, in order.

    Raises:
        KeyError: a field is not declared by `option`.
    """
    found, group = [], ""
    for item in fields(declaring):
        declared: _Declaration = item.metadata[_DECLARATION]
        group = declared.group or group
        required = item.default is MISSING and item.default_factory is MISSING
        default = "" if item.default in {MISSING, None, ""} else declared.kind.write(item.default)
        found.append(
            Option(
                item.name,
                declared.kind,
                declared.help,
                declared.unit,
                group,
                required,
                default,
                declared.unset,
                declared.field,
            )
        )
    return tuple(found)


def keys_of(declaring: type) -> tuple[str, ...]:
    """Return the keys of a dataclass's options, in order."""
    return tuple(one.key for one in options_of(declaring))


def read_options(
    declaring: type, values: Mapping[str, object], where: Callable[[Option], str] = lambda one: one.key
) -> dict[str, Any]:
    """Convert values by key into keyword arguments of the dataclass. All keys are known.

    Args:
        declaring: the dataclass.
        values: the values of some options, as the YAML file or the command line has them.
        where: returns the words with which an error names an option.

    Raises:
        ConfigError: a value has another form than its option.
    """
    found = {}
    for one in options_of(declaring):
        if one.key in values:
            try:
                found[one.name] = one.kind.parse(values[one.key])
            except ConfigError as error:
                raise ConfigError(f"{where(one)}: {error}") from error
    return found


def check_keys(declaring: type, document: Mapping[Any, object]) -> None:
    """Check that a mapping has keys of options only.

    Raises:
        ConfigError: a key belongs to no option.
    """
    known = keys_of(declaring)
    unknown = sorted(str(key) for key in document if key not in known)
    if unknown:
        raise ConfigError(f"unknown key {unknown[0]!r}{_hint(unknown[0], known)}; known are {', '.join(known)}")


def _hint(key: str, known: tuple[str, ...]) -> str:
    """Return the words that name the key of the same setting, or the nearest one; empty if there is none."""
    dashed = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", key[:_MAX_SHOWN]).replace("_", "-").lower()
    same = _OTHER_NAMES.get(dashed, dashed)
    if same in known:
        return f"; it is {same} here"
    near = nearest(dashed, known)
    return f"; the nearest is {near}" if near else ""


def without_unknown(
    declaring: type, document: Mapping[Any, object], path: str = ""
) -> tuple[dict[Any, Any], list[str]]:
    """Return a mapping without the keys that belong to no option, also of options that are mappings, and these keys.

    A mapping of which nothing is left is left out.

    Args:
        declaring: the dataclass that declares the options.
        document: the mapping.
        path: path of the mapping with a dot at its end; empty for the file itself.
    """
    kinds = {one.key: one.kind for one in options_of(declaring)}
    kept: dict[Any, Any] = {}
    unknown = []
    for key, value in document.items():
        if key not in kinds:
            unknown.append(f"{path}{key}")
            continue
        nested = kinds[key].declaring
        if nested is not None and isinstance(value, dict) and value:
            inner, more = without_unknown(nested, value, f"{path}{key}.")
            unknown += more
            if inner:
                kept[key] = inner
        else:
            kept[key] = value
    return kept, unknown


def shown(value: object) -> str:
    """Return a value for an error, shortened where it is long."""
    short = reprlib.Repr()
    short.maxstring = short.maxother = _MAX_SHOWN
    return short.repr(value)
