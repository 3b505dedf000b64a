from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class OffloadContext(_message.Message):
    __slots__ = ("uid_msb", "uid_lsb", "complete", "bookkeeper_deleted", "timestamp")
    UID_MSB_FIELD_NUMBER: _ClassVar[int]
    UID_LSB_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    BOOKKEEPER_DELETED_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    uid_msb: int
    uid_lsb: int
    complete: bool
    bookkeeper_deleted: bool
    timestamp: int
    def __init__(self, uid_msb: _Optional[int] = ..., uid_lsb: _Optional[int] = ..., complete: _Optional[bool] = ..., bookkeeper_deleted: _Optional[bool] = ..., timestamp: _Optional[int] = ...) -> None: ...

class LedgerInfo(_message.Message):
    __slots__ = ("ledger_id", "entries", "size", "timestamp", "offload_context")
    LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    OFFLOAD_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    ledger_id: int
    entries: int
    size: int
    timestamp: int
    offload_context: OffloadContext
    def __init__(self, ledger_id: _Optional[int] = ..., entries: _Optional[int] = ..., size: _Optional[int] = ..., timestamp: _Optional[int] = ..., offload_context: _Optional[_Union[OffloadContext, _Mapping]] = ...) -> None: ...

class NestedPosition(_message.Message):
    __slots__ = ("ledger_id", "entry_id")
    LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
    ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    ledger_id: int
    entry_id: int
    def __init__(self, ledger_id: _Optional[int] = ..., entry_id: _Optional[int] = ...) -> None: ...

class KeyValue(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: str
    def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class ManagedLedgerInfo(_message.Message):
    __slots__ = ("ledger_info", "terminated_position", "properties")
    LEDGER_INFO_FIELD_NUMBER: _ClassVar[int]
    TERMINATED_POSITION_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    ledger_info: _containers.RepeatedCompositeFieldContainer[LedgerInfo]
    terminated_position: NestedPosition
    properties: _containers.RepeatedCompositeFieldContainer[KeyValue]
    def __init__(self, ledger_info: _Optional[_Iterable[_Union[LedgerInfo, _Mapping]]] = ..., terminated_position: _Optional[_Union[NestedPosition, _Mapping]] = ..., properties: _Optional[_Iterable[_Union[KeyValue, _Mapping]]] = ...) -> None: ...

class CompressedInfo(_message.Message):
    __slots__ = ("compression_type", "uncompressed_size")
    COMPRESSION_TYPE_FIELD_NUMBER: _ClassVar[int]
    UNCOMPRESSED_SIZE_FIELD_NUMBER: _ClassVar[int]
    compression_type: int
    uncompressed_size: int
    def __init__(self, compression_type: _Optional[int] = ..., uncompressed_size: _Optional[int] = ...) -> None: ...
