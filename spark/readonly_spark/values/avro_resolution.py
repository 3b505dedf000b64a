"""Avro's rules for reading a value as another schema, as Avro's Java library has them (1.12, org.apache.avro.Resolver). Pure.

fastavro decodes payloads by the writer's schema alone, without logical types: it would apply those of the writer, and take
defaults as they are in JSON. The functions of this module turn its values into those of the reader's schema.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from readonly_spark.values.avro import is_struct_union, member_name, parsed_type, widest_of
from readonly_spark.values.meaning import MeaningError, check_fits, is_refusing, meaning, refusing
from readonly_spark.values.schema import names_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from readonly_spark.values.meaning import Convert

_NAMED: Final = {"record", "enum", "fixed"}
_INTS: Final = range(-(2**31), 2**31)
_DOUBLE_BITS: Final = 53


def _int(found: int) -> int:
    if found not in _INTS:
        raise MeaningError("a number does not fit into an int")
    return found


def to_float(found: int) -> float:
    """Return a number that rounds to the nearest float: a double that was rounded before might not."""
    dropped = max(found.bit_length() - _DOUBLE_BITS, 0)
    kept = found >> dropped
    return float((kept | (kept << dropped != found)) << dropped)


_PROMOTIONS: Final[dict[tuple[str, str], Convert | None]] = {
    ("int", "long"): _int,
    ("int", "float"): to_float,
    ("long", "float"): to_float,
    ("int", "double"): float,
    ("long", "double"): float,
    ("float", "double"): None,
    ("string", "bytes"): str.encode,
    ("bytes", "string"): bytes.decode,
}
"""Types that are read as another one; the order is that of a reader's union in Java's search."""


def resolution(
    writer: tuple[Any, Mapping[str, Any]], reader: tuple[Any, Mapping[str, Any]], target: pa.DataType
) -> Convert | None:
    """Return the conversion of a value that was decoded with `plain_definition` of the writer's schema.

    Args:
        writer: the writer's schema, and its named types, as `parse_avro` returns them.
        reader: the reader's schema, and its named types.
        target: the column's type.

    Returns:
        None if Arrow accepts the decoded value.
    """
    return _Resolution(writer[1], reader[1]).of(writer[0], reader[0], target)


class _Resolution:
    """Conversions between the types of two schemas.

    Args:
        written: named types of the writer's schema.
        read: named types of the reader's schema.
    """

    def __init__(self, written: Mapping[str, Any], read: Mapping[str, Any]) -> None:
        self._written = written
        self._read = read

    def of(self, writer: Any, reader: Any, target: pa.DataType) -> Convert | None:
        """Return the conversion of a value. What cannot be read as the other type refuses each value."""
        writer, reader = named_type(writer, self._written), named_type(reader, self._read)
        if isinstance(writer, list):
            return self._from_union(writer, reader, target)
        if isinstance(reader, list):
            return self._to_union(writer, reader, target)
        found, wanted = kind_of(writer), kind_of(reader)
        if found == wanted == "record":
            return self._record(writer, reader, target)
        if found == wanted == "array":
            return each(self.of(writer["items"], reader["items"], item_type(target)))
        if found == wanted == "map":
            return pairs(self.of(writer["values"], reader["values"], item_type(target)))
        if found == wanted == "enum":
            return self._enum(writer, reader)
        if found == "null":
            return None if wanted == "null" else refusing(f"null was written, and is read as {wanted}")
        if found == wanted == "fixed" and not _are_alike(writer, reader):
            return refusing(f"{writer['name']} was written, and is read as {reader['name']} of another name or size")
        if found != wanted and (found, wanted) not in _PROMOTIONS:
            return refusing(f"{found} was written, and is read as {wanted}")
        return both(_PROMOTIONS.get((found, wanted)), meaning(writer, reader))

    def _from_union(self, writer: list[Any], reader: Any, target: pa.DataType) -> Convert | None:
        members = [one for one in writer if one != "null"]
        null = self.of("null", reader, target) if "null" in writer else None
        if isinstance(reader, list) and not members:
            return null
        if not is_struct_union(writer):
            return optional(self.of(members[0], reader, target), null)
        # Each member is a record with one field, of this name.
        converts = {member_name(at): self.of(one, reader, target) for at, one in enumerate(members)}

        def convert(found: Any) -> Any:
            if found is None:
                return None if null is None else null(None)
            ((name, value),) = found.items()
            convert_member = converts[name]
            return value if convert_member is None else convert_member(value)

        return convert

    def _to_union(self, writer: Any, reader: list[Any], target: pa.DataType) -> Convert | None:
        at = self._matching(writer, reader)
        if at is None:
            return refusing(f"{kind_of(writer)} was written, and is read as a union without it")
        if reader[at] == "null":
            return None
        members = [one for one in reader if one != "null"]
        if len(members) == 1 or widest_of(members) is not None:
            return self.of(writer, reader[at], target)
        name = member_name(members.index(reader[at]))
        inner = self.of(writer, reader[at], _field_type(target, name))
        return (lambda found: {name: found}) if inner is None else (lambda found: {name: inner(found)})

    def _matching(self, writer: Any, reader: list[Any]) -> int | None:
        """Return the number of the reader's member for a type, as ReaderUnion.firstMatchingBranch."""
        found = kind_of(writer)
        members = [named_type(one, self._read) for one in reader]
        alike = None
        for at, one in enumerate(members):
            if kind_of(one) != found:
                continue
            if found not in _NAMED or _called(writer, one) == one["name"]:
                return at
            same = _short(_called(writer, one)) == _short(one["name"])
            if found == "record" and (alike is None or same) and self._is_readable(writer, one):
                alike = at
        if alike is not None:
            return alike
        return next((at for at, one in enumerate(members) if (found, kind_of(one)) in _PROMOTIONS), None)

    def _is_readable(self, writer: Any, reader: Any) -> bool:
        """Return whether a record and its fields have matching types, as ReaderUnion.hasMatchError."""
        if is_refusing(self._record(writer, reader, pa.null())):
            return False
        renamed = _renamed(writer, reader)
        written = {renamed.get(one["name"], one["name"]): one["type"] for one in writer["fields"]}
        return not any(
            is_refusing(self.of(written[one["name"]], one["type"], pa.null()))
            for one in reader["fields"]
            if one["name"] in written
        )

    def _enum(self, writer: Any, reader: Any) -> Convert | None:
        if _short(_called(writer, reader)) != _short(reader["name"]):
            return refusing(f"{writer['name']} was written, and is read as {reader['name']}")
        known, default = set(reader["symbols"]), reader.get("default")
        if known.issuperset(writer["symbols"]):
            return None

        def convert(found: str) -> str:
            if found in known:
                return found
            if default is None:
                raise MeaningError(f"{found} is no symbol of {reader['name']}, which has no default")
            return str(default)

        return convert

    def _record(self, writer: Any, reader: Any, target: pa.DataType) -> Convert | None:
        renamed = _renamed(writer, reader)
        written = {renamed.get(one["name"], one["name"]): one for one in writer["fields"]}
        if len(written) < len(writer["fields"]):
            return refusing(f"{reader['name']} has an alias for a field beside the field itself")
        read = {one["name"]: one for one in reader["fields"]}
        missing = [name for name, one in read.items() if name not in written and "default" not in one]
        if missing:
            return refusing(f"field {missing[0]} was not written, and has no default")
        if not pa.types.is_struct(target):
            return None  # Arrow refuses it
        sources, converts, constants = {}, {}, {}
        for name in names_of(target):
            kind = target.field(name).type
            if name in read and name in written:
                sources[name] = written[name]["name"]
                converts[name] = self.of(written[name]["type"], read[name]["type"], kind)
            elif name in read:
                constants[name] = self.default(read[name]["type"], read[name]["default"], kind)
            elif name in written:
                # A query keeps the type that it was planned with: fields that the newest version dropped are the writer's.
                own = written[name]["type"]
                check_fits(parsed_type(own, self._written, unions=True), kind, name)
                sources[name] = written[name]["name"]
                converts[name] = _Resolution(self._written, self._written).of(own, own, kind)
        return fields(sources, converts, constants)

    def default(self, reader: Any, found: Any, target: pa.DataType) -> Any:
        """Return a field's default as a value of the column, as ResolvingGrammarGenerator.encode.

        Raises:
            MeaningError: it is no value of the type.
        """
        reader = named_type(reader, self._read)
        if isinstance(reader, list):
            member = next((one for one in reader if _may_be(kind_of(named_type(one, self._read)), found)), None)
            members = [one for one in reader if one != "null"]
            if member is None:
                raise MeaningError(f"the default {found!r} is of no type of its union")
            if found is None or len(members) == 1 or widest_of(members) is not None:
                return self.default(member, found, target)
            name = member_name(members.index(member))
            return {name: self.default(member, found, _field_type(target, name))}
        kind = kind_of(reader)
        if not _may_be(kind, found):
            raise MeaningError(f"the default {found!r} is no {kind}")
        if kind == "record":
            made = {}
            for one in reader["fields"]:
                if one["name"] not in found and "default" not in one:
                    raise MeaningError(f"a default has no field {one['name']}")
                if one["name"] in names_of(target):
                    value, inner = found.get(one["name"], one.get("default")), _field_type(target, one["name"])
                    made[one["name"]] = self.default(one["type"], value, inner)
            return made
        if kind == "array":
            return [self.default(reader["items"], one, item_type(target)) for one in found]
        if kind == "map":
            return [(key, self.default(reader["values"], one, item_type(target))) for key, one in found.items()]
        if kind == "enum" and found not in reader["symbols"]:
            raise MeaningError(f"the default {found!r} is no symbol of {reader['name']}")
        if kind in {"bytes", "fixed"}:
            found = found.encode("latin-1")
            if kind == "fixed" and len(found) != reader["size"]:
                raise MeaningError(f"the default of {reader['name']} does not have {reader['size']} bytes")
        convert = meaning(None, reader)
        return found if convert is None else convert(found)


def fields(sources: dict[str, str], converts: dict[str, Convert | None], constants: dict[str, Any]) -> Convert | None:
    """Return the conversion of a record.

    Args:
        sources: the name of each field in the decoded record.
        converts: its conversion.
        constants: values of other fields.
    """
    needed = {name: convert for name, convert in converts.items() if convert is not None}
    if any(name != source for name, source in sources.items()):
        every = [(name, source, converts[name]) for name, source in sources.items()]
        return lambda found: (
            {name: found[source] if convert is None else convert(found[source]) for name, source, convert in every}
            | constants
        )
    if not needed and not constants:
        return None

    def convert_fields(found: dict[str, Any]) -> dict[str, Any]:
        for name, convert in needed.items():
            found[name] = convert(found[name])
        found.update(constants)
        return found

    return convert_fields


def both(first: Convert | None, second: Convert | None) -> Convert | None:
    """Return one conversion after the other."""
    if first is None or second is None:
        return first or second
    return lambda found: second(first(found))


def optional(convert: Convert | None, null: Convert | None) -> Convert | None:
    """Return the conversion of a value or null; `null` is None if null is allowed."""
    if convert is None and null is None:
        return None

    def convert_optional(found: Any) -> Any:
        if found is None:
            return None if null is None else null(None)
        return found if convert is None else convert(found)

    return convert_optional


def each(convert: Convert | None) -> Convert | None:
    """Return the conversion of a list's items."""
    return None if convert is None else lambda found: [convert(one) for one in found]


def pairs(convert: Convert | None) -> Convert:
    """Return the conversion of a map to pairs, as Arrow expects them."""
    if convert is None:
        return lambda found: list(found.items())
    return lambda found: [(key, convert(one)) for key, one in found.items()]


def kind_of(definition: Any) -> Any:
    """Return the type of a definition without a name to resolve."""
    kind = definition["type"] if isinstance(definition, dict) else definition
    return "record" if kind == "error" else kind


def named_type(definition: Any, named: Mapping[str, Any]) -> Any:
    """Return the definition of a type, whose name is resolved."""
    found = named.get(definition, definition) if isinstance(definition, str) else definition
    while isinstance(found, dict) and not isinstance(found["type"], str):
        found = found["type"]
    if isinstance(found, dict) and found["type"] in named:
        return named[found["type"]]
    return found


def item_type(target: pa.DataType) -> pa.DataType:
    """Return the type of the items of a list or map column; the type itself for another column, which Arrow refuses."""
    if pa.types.is_map(target):
        return target.item_type
    return target.value_type if pa.types.is_list(target) else target


def _field_type(target: pa.DataType, name: str) -> pa.DataType:
    return target.field(name).type if name in names_of(target) else target


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _called(writer: Any, reader: Any) -> str:
    """Return the writer's name of a type; the reader's if that is an alias."""
    space = reader["name"].rpartition(".")[0]
    aliases = {one if "." in one or not space else f"{space}.{one}" for one in reader.get("aliases", ())}
    return str(reader["name"] if writer["name"] in aliases else writer["name"])


def _renamed(writer: Any, reader: Any) -> dict[str, str]:
    """Return the reader's names of the writer's fields, as far as they are aliases."""
    if _called(writer, reader) != reader["name"]:
        return {}
    return {alias: one["name"] for one in reader["fields"] for alias in one.get("aliases", ())}


def _are_alike(writer: Any, reader: Any) -> bool:
    return _short(_called(writer, reader)) == _short(reader["name"]) and writer["size"] == reader["size"]


def _may_be(kind: str, found: Any) -> bool:
    """Return whether a default in JSON may be of a type."""
    if kind == "null":
        return found is None
    if kind == "boolean":
        return isinstance(found, bool)
    if kind in {"int", "long", "float", "double"}:
        return (
            isinstance(found, int | float)
            and not isinstance(found, bool)
            and (kind in {"float", "double"} or found == int(found))
        )
    if kind in {"record", "map"}:
        return isinstance(found, dict)
    return isinstance(found, list if kind == "array" else str)
