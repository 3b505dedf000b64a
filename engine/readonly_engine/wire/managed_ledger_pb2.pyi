from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class OffloadDriverMetadata(_message.Message):
    __slots__ = ("name", "properties")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    name: str
    properties: _containers.RepeatedCompositeFieldContainer[KeyValue]
    def __init__(self, name: _Optional[str] = ..., properties: _Optional[_Iterable[_Union[KeyValue, _Mapping]]] = ...) -> None: ...

class OffloadSegment(_message.Message):
    __slots__ = ("uid_msb", "uid_lsb", "complete", "assigned_timestamp", "offloaded_timestamp", "end_entry_id", "driver_metadata")
    UID_MSB_FIELD_NUMBER: _ClassVar[int]
    UID_LSB_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    ASSIGNED_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    OFFLOADED_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    END_ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    DRIVER_METADATA_FIELD_NUMBER: _ClassVar[int]
    uid_msb: int
    uid_lsb: int
    complete: bool
    assigned_timestamp: int
    offloaded_timestamp: int
    end_entry_id: int
    driver_metadata: OffloadDriverMetadata
    def __init__(self, uid_msb: _Optional[int] = ..., uid_lsb: _Optional[int] = ..., complete: _Optional[bool] = ..., assigned_timestamp: _Optional[int] = ..., offloaded_timestamp: _Optional[int] = ..., end_entry_id: _Optional[int] = ..., driver_metadata: _Optional[_Union[OffloadDriverMetadata, _Mapping]] = ...) -> None: ...

class OffloadContext(_message.Message):
    __slots__ = ("uid_msb", "uid_lsb", "complete", "bookkeeper_deleted", "timestamp", "driver_metadata", "offload_segment")
    UID_MSB_FIELD_NUMBER: _ClassVar[int]
    UID_LSB_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    BOOKKEEPER_DELETED_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    DRIVER_METADATA_FIELD_NUMBER: _ClassVar[int]
    OFFLOAD_SEGMENT_FIELD_NUMBER: _ClassVar[int]
    uid_msb: int
    uid_lsb: int
    complete: bool
    bookkeeper_deleted: bool
    timestamp: int
    driver_metadata: OffloadDriverMetadata
    offload_segment: _containers.RepeatedCompositeFieldContainer[OffloadSegment]
    def __init__(self, uid_msb: _Optional[int] = ..., uid_lsb: _Optional[int] = ..., complete: _Optional[bool] = ..., bookkeeper_deleted: _Optional[bool] = ..., timestamp: _Optional[int] = ..., driver_metadata: _Optional[_Union[OffloadDriverMetadata, _Mapping]] = ..., offload_segment: _Optional[_Iterable[_Union[OffloadSegment, _Mapping]]] = ...) -> None: ...

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

class PositionRange(_message.Message):
    __slots__ = ("lower", "upper")
    LOWER_FIELD_NUMBER: _ClassVar[int]
    UPPER_FIELD_NUMBER: _ClassVar[int]
    lower: NestedPosition
    upper: NestedPosition
    def __init__(self, lower: _Optional[_Union[NestedPosition, _Mapping]] = ..., upper: _Optional[_Union[NestedPosition, _Mapping]] = ...) -> None: ...

class NamedLong(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: int
    def __init__(self, name: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...

class NamedText(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: str
    def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class BatchAck(_message.Message):
    __slots__ = ("position", "unacked")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    UNACKED_FIELD_NUMBER: _ClassVar[int]
    position: NestedPosition
    unacked: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, position: _Optional[_Union[NestedPosition, _Mapping]] = ..., unacked: _Optional[_Iterable[int]] = ...) -> None: ...

class LongArrayOfLedger(_message.Message):
    __slots__ = ("ledger_id", "words")
    LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
    WORDS_FIELD_NUMBER: _ClassVar[int]
    ledger_id: int
    words: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, ledger_id: _Optional[int] = ..., words: _Optional[_Iterable[int]] = ...) -> None: ...

class CursorInfo(_message.Message):
    __slots__ = ("cursor_ledger_id", "mark_delete_ledger_id", "mark_delete_entry_id", "individually_deleted", "properties", "last_active", "batch_acks", "cursor_properties")
    CURSOR_LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
    MARK_DELETE_LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
    MARK_DELETE_ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    INDIVIDUALLY_DELETED_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    LAST_ACTIVE_FIELD_NUMBER: _ClassVar[int]
    BATCH_ACKS_FIELD_NUMBER: _ClassVar[int]
    CURSOR_PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    cursor_ledger_id: int
    mark_delete_ledger_id: int
    mark_delete_entry_id: int
    individually_deleted: _containers.RepeatedCompositeFieldContainer[PositionRange]
    properties: _containers.RepeatedCompositeFieldContainer[NamedLong]
    last_active: int
    batch_acks: _containers.RepeatedCompositeFieldContainer[BatchAck]
    cursor_properties: _containers.RepeatedCompositeFieldContainer[NamedText]
    def __init__(self, cursor_ledger_id: _Optional[int] = ..., mark_delete_ledger_id: _Optional[int] = ..., mark_delete_entry_id: _Optional[int] = ..., individually_deleted: _Optional[_Iterable[_Union[PositionRange, _Mapping]]] = ..., properties: _Optional[_Iterable[_Union[NamedLong, _Mapping]]] = ..., last_active: _Optional[int] = ..., batch_acks: _Optional[_Iterable[_Union[BatchAck, _Mapping]]] = ..., cursor_properties: _Optional[_Iterable[_Union[NamedText, _Mapping]]] = ...) -> None: ...

class CursorEntry(_message.Message):
    __slots__ = ("ledger_id", "entry_id", "individually_deleted", "properties", "batch_acks", "deleted_bits")
    LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
    ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    INDIVIDUALLY_DELETED_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    BATCH_ACKS_FIELD_NUMBER: _ClassVar[int]
    DELETED_BITS_FIELD_NUMBER: _ClassVar[int]
    ledger_id: int
    entry_id: int
    individually_deleted: _containers.RepeatedCompositeFieldContainer[PositionRange]
    properties: _containers.RepeatedCompositeFieldContainer[NamedLong]
    batch_acks: _containers.RepeatedCompositeFieldContainer[BatchAck]
    deleted_bits: _containers.RepeatedCompositeFieldContainer[LongArrayOfLedger]
    def __init__(self, ledger_id: _Optional[int] = ..., entry_id: _Optional[int] = ..., individually_deleted: _Optional[_Iterable[_Union[PositionRange, _Mapping]]] = ..., properties: _Optional[_Iterable[_Union[NamedLong, _Mapping]]] = ..., batch_acks: _Optional[_Iterable[_Union[BatchAck, _Mapping]]] = ..., deleted_bits: _Optional[_Iterable[_Union[LongArrayOfLedger, _Mapping]]] = ...) -> None: ...
