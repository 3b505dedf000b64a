from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SchemaPosition(_message.Message):
    __slots__ = ("ledger_id", "entry_id")
    LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
    ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    ledger_id: int
    entry_id: int
    def __init__(self, ledger_id: _Optional[int] = ..., entry_id: _Optional[int] = ...) -> None: ...

class SchemaIndexEntry(_message.Message):
    __slots__ = ("version", "position")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    version: int
    position: SchemaPosition
    def __init__(self, version: _Optional[int] = ..., position: _Optional[_Union[SchemaPosition, _Mapping]] = ...) -> None: ...

class SchemaLocator(_message.Message):
    __slots__ = ("info", "index")
    INFO_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    info: SchemaIndexEntry
    index: _containers.RepeatedCompositeFieldContainer[SchemaIndexEntry]
    def __init__(self, info: _Optional[_Union[SchemaIndexEntry, _Mapping]] = ..., index: _Optional[_Iterable[_Union[SchemaIndexEntry, _Mapping]]] = ...) -> None: ...

class SchemaEntry(_message.Message):
    __slots__ = ("schema_data", "index")
    SCHEMA_DATA_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    schema_data: bytes
    index: _containers.RepeatedCompositeFieldContainer[SchemaIndexEntry]
    def __init__(self, schema_data: _Optional[bytes] = ..., index: _Optional[_Iterable[_Union[SchemaIndexEntry, _Mapping]]] = ...) -> None: ...

class SchemaProperty(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: str
    def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class SchemaInfo(_message.Message):
    __slots__ = ("type", "schema", "deleted", "props")
    class Type(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNKNOWN: _ClassVar[SchemaInfo.Type]
        NONE: _ClassVar[SchemaInfo.Type]
        STRING: _ClassVar[SchemaInfo.Type]
        JSON: _ClassVar[SchemaInfo.Type]
        PROTOBUF: _ClassVar[SchemaInfo.Type]
        AVRO: _ClassVar[SchemaInfo.Type]
        BOOLEAN: _ClassVar[SchemaInfo.Type]
        INT8: _ClassVar[SchemaInfo.Type]
        INT16: _ClassVar[SchemaInfo.Type]
        INT32: _ClassVar[SchemaInfo.Type]
        INT64: _ClassVar[SchemaInfo.Type]
        FLOAT: _ClassVar[SchemaInfo.Type]
        DOUBLE: _ClassVar[SchemaInfo.Type]
        DATE: _ClassVar[SchemaInfo.Type]
        TIME: _ClassVar[SchemaInfo.Type]
        TIMESTAMP: _ClassVar[SchemaInfo.Type]
        KEYVALUE: _ClassVar[SchemaInfo.Type]
        INSTANT: _ClassVar[SchemaInfo.Type]
        LOCALDATE: _ClassVar[SchemaInfo.Type]
        LOCALTIME: _ClassVar[SchemaInfo.Type]
        LOCALDATETIME: _ClassVar[SchemaInfo.Type]
        PROTOBUFNATIVE: _ClassVar[SchemaInfo.Type]
    UNKNOWN: SchemaInfo.Type
    NONE: SchemaInfo.Type
    STRING: SchemaInfo.Type
    JSON: SchemaInfo.Type
    PROTOBUF: SchemaInfo.Type
    AVRO: SchemaInfo.Type
    BOOLEAN: SchemaInfo.Type
    INT8: SchemaInfo.Type
    INT16: SchemaInfo.Type
    INT32: SchemaInfo.Type
    INT64: SchemaInfo.Type
    FLOAT: SchemaInfo.Type
    DOUBLE: SchemaInfo.Type
    DATE: SchemaInfo.Type
    TIME: SchemaInfo.Type
    TIMESTAMP: SchemaInfo.Type
    KEYVALUE: SchemaInfo.Type
    INSTANT: SchemaInfo.Type
    LOCALDATE: SchemaInfo.Type
    LOCALTIME: SchemaInfo.Type
    LOCALDATETIME: SchemaInfo.Type
    PROTOBUFNATIVE: SchemaInfo.Type
    TYPE_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    PROPS_FIELD_NUMBER: _ClassVar[int]
    type: SchemaInfo.Type
    schema: bytes
    deleted: bool
    props: _containers.RepeatedCompositeFieldContainer[SchemaProperty]
    def __init__(self, type: _Optional[_Union[SchemaInfo.Type, str]] = ..., schema: _Optional[bytes] = ..., deleted: _Optional[bool] = ..., props: _Optional[_Iterable[_Union[SchemaProperty, _Mapping]]] = ...) -> None: ...
