"""Values of Pulsar's PROTOBUF_NATIVE and PROTOBUF schemas. Pure.

The definition of PROTOBUF_NATIVE is the compiled schema. That of the older PROTOBUF lists the fields of the root message only
(ProtobufSchema.getParsingInfo): messages within are read as bytes, and enums as numbers.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from readonly_spark.values.avro import MAX_FIELDS
from readonly_spark.values.type_names import TypeNameError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from google.protobuf.message import Message

_TYPES: Final = {
    FieldDescriptor.CPPTYPE_INT32: pa.int32(),
    FieldDescriptor.CPPTYPE_INT64: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT32: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT64: pa.decimal128(20, 0),
    FieldDescriptor.CPPTYPE_DOUBLE: pa.float64(),
    FieldDescriptor.CPPTYPE_FLOAT: pa.float32(),
    FieldDescriptor.CPPTYPE_BOOL: pa.bool_(),
    FieldDescriptor.CPPTYPE_ENUM: pa.string(),
    FieldDescriptor.CPPTYPE_STRING: pa.string(),
}
"""Spark has no unsigned numbers: they map to the next larger type."""


_LISTED: Final = "__PARSING_INFO__"
"""Property with the list of fields of a PROTOBUF schema."""

_AS_LISTED: Final = {"MESSAGE": "BYTES", "ENUM": "INT32"}
"""Types with the same bytes, for fields whose own types are not in the list."""


def message_class(text: bytes) -> type[Message]:
    """Return the class of a schema's root message.

    Args:
        text: the schema's definition: JSON with `fileDescriptorSet` (base64) and `rootMessageTypeName`.

    Raises:
        ValueError: the definition is malformed.
        KeyError: a part is missing.
        TypeError: its files do not fit together.
    """
    found = json.loads(text)
    files = FileDescriptorSet.FromString(base64.b64decode(found["fileDescriptorSet"]))
    waiting = {file.name: file for file in files.file}
    pool = DescriptorPool()

    def add(name: str) -> None:
        file = waiting.pop(name, None)
        if file is not None:
            for dependency in file.dependency:
                add(dependency)
            pool.Add(file)

    for name in list(waiting):
        add(name)
    return GetMessageClass(pool.FindMessageTypeByName(found["rootMessageTypeName"]))


def listed_message_class(properties: Mapping[str, str]) -> type[Message]:
    """Return a class for the fields that a PROTOBUF schema lists.

    The list does not tell fields with presence from others, so an unset field has its default, as in proto3.

    Args:
        properties: the schema's properties, with the list.

    Raises:
        ValueError: the definition is malformed.
        KeyError: a part is missing.
        TypeError: the fields do not fit together.
    """
    message = DescriptorProto(name="Root")
    for one in json.loads(properties[_LISTED]):
        kind = _AS_LISTED.get(one["type"], one["type"])
        if kind == "GROUP":
            raise ValueError(f"field {one['name']} is a group")
        message.field.add(
            name=one["name"],
            number=one["number"],
            label="LABEL_REPEATED" if one["label"] == "LABEL_REPEATED" else "LABEL_OPTIONAL",
            type=f"TYPE_{kind}",
        )
    file = FileDescriptorProto(name="listed.proto", package="listed", syntax="proto3", message_type=[message])
    pool = DescriptorPool()
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("listed.Root"))


def message_type(descriptor: Any) -> pa.DataType:
    """Return the type of a message: a struct of its fields.

    Args:
        descriptor: the message's Descriptor.

    Raises:
        TypeNameError: a message has no fields, or contains itself; or there are more than MAX_FIELDS.
    """
    return _Types().message(descriptor, ())


# Descriptors are of protobuf's C implementation, which has no type stubs.


class _Types:
    """Types of a definition."""

    def __init__(self) -> None:
        self._fields = 0

    def message(self, descriptor: Any, within: tuple[str, ...]) -> pa.DataType:
        """Return the type of a message; `within` has the names of the enclosing ones."""
        if descriptor.full_name in within:
            raise TypeNameError(f"message {descriptor.full_name} contains itself")
        if not descriptor.fields:
            raise TypeNameError(f"message {descriptor.full_name} has no fields")
        self._fields += len(descriptor.fields)
        if self._fields > MAX_FIELDS:
            raise TypeNameError(f"the definition has more than {MAX_FIELDS:,} fields, each use of a message counted")
        inside = (*within, descriptor.full_name)
        return pa.struct([pa.field(one.name, self._type(one, inside)) for one in descriptor.fields])

    def _type(self, one: Any, within: tuple[str, ...]) -> pa.DataType:
        if _is_map(one):
            entry = one.message_type.fields_by_name
            return pa.map_(self._single(entry["key"], within), self._single(entry["value"], within))
        kind = self._single(one, within)
        return pa.list_(pa.field("element", kind)) if one.is_repeated else kind

    def _single(self, one: Any, within: tuple[str, ...]) -> pa.DataType:
        if one.message_type is not None:
            return self.message(one.message_type, within)
        if one.type == FieldDescriptor.TYPE_BYTES:
            return pa.binary()
        return _TYPES[one.cpp_type]


def _is_map(one: Any) -> bool:
    return one.message_type is not None and bool(one.message_type.GetOptions().map_entry)


def to_python(message: Any) -> dict[str, Any]:
    """Return a message as Arrow expects it. An unset field with presence is left out; other unset fields have their default."""
    found: dict[str, Any] = {}
    for one in message.DESCRIPTOR.fields:
        if not one.is_repeated and one.has_presence and not message.HasField(one.name):
            continue
        value = getattr(message, one.name)
        if _is_map(one):
            item = one.message_type.fields_by_name["value"]
            found[one.name] = [
                (key, _value(item, value[key])) for key in sorted(value)
            ]  # protobuf's order differs in each process
        elif one.is_repeated:
            found[one.name] = [_value(one, item) for item in value]
        else:
            found[one.name] = _value(one, value)
    return found


def _value(one: Any, value: Any) -> Any:
    if one.message_type is not None:
        return to_python(value)
    if one.enum_type is not None:
        known = one.enum_type.values_by_number.get(value)
        return str(value) if known is None else known.name
    return value
