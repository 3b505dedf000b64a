from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Property(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: str
    def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class Definition(_message.Message):
    __slots__ = ("number", "name", "generation", "ledger_id", "entry_id", "created_ms", "properties")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
    ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    CREATED_MS_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    number: int
    name: str
    generation: int
    ledger_id: int
    entry_id: int
    created_ms: int
    properties: _containers.RepeatedCompositeFieldContainer[Property]
    def __init__(self, number: _Optional[int] = ..., name: _Optional[str] = ..., generation: _Optional[int] = ..., ledger_id: _Optional[int] = ..., entry_id: _Optional[int] = ..., created_ms: _Optional[int] = ..., properties: _Optional[_Iterable[_Union[Property, _Mapping]]] = ...) -> None: ...

class Definitions(_message.Message):
    __slots__ = ("last_generation", "subscriptions", "topic_created_ms")
    LAST_GENERATION_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTIONS_FIELD_NUMBER: _ClassVar[int]
    TOPIC_CREATED_MS_FIELD_NUMBER: _ClassVar[int]
    last_generation: int
    subscriptions: _containers.RepeatedCompositeFieldContainer[Definition]
    topic_created_ms: int
    def __init__(self, last_generation: _Optional[int] = ..., subscriptions: _Optional[_Iterable[_Union[Definition, _Mapping]]] = ..., topic_created_ms: _Optional[int] = ...) -> None: ...

class MarkDeletes(_message.Message):
    __slots__ = ("number", "generation", "ledger_id", "entry_id")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
    ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    number: _containers.RepeatedScalarFieldContainer[int]
    generation: _containers.RepeatedScalarFieldContainer[int]
    ledger_id: _containers.RepeatedScalarFieldContainer[int]
    entry_id: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, number: _Optional[_Iterable[int]] = ..., generation: _Optional[_Iterable[int]] = ..., ledger_id: _Optional[_Iterable[int]] = ..., entry_id: _Optional[_Iterable[int]] = ...) -> None: ...

class Acked(_message.Message):
    __slots__ = ("generation", "lower_ledger_id", "lower_entry_id", "upper_ledger_id", "upper_entry_id", "batches")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    LOWER_LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
    LOWER_ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    UPPER_LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
    UPPER_ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    generation: int
    lower_ledger_id: _containers.RepeatedScalarFieldContainer[int]
    lower_entry_id: _containers.RepeatedScalarFieldContainer[int]
    upper_ledger_id: _containers.RepeatedScalarFieldContainer[int]
    upper_entry_id: _containers.RepeatedScalarFieldContainer[int]
    batches: _containers.RepeatedCompositeFieldContainer[PartlyAcked]
    def __init__(self, generation: _Optional[int] = ..., lower_ledger_id: _Optional[_Iterable[int]] = ..., lower_entry_id: _Optional[_Iterable[int]] = ..., upper_ledger_id: _Optional[_Iterable[int]] = ..., upper_entry_id: _Optional[_Iterable[int]] = ..., batches: _Optional[_Iterable[_Union[PartlyAcked, _Mapping]]] = ...) -> None: ...

class PartlyAcked(_message.Message):
    __slots__ = ("ledger_id", "entry_id", "unacked")
    LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
    ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    UNACKED_FIELD_NUMBER: _ClassVar[int]
    ledger_id: int
    entry_id: int
    unacked: bytes
    def __init__(self, ledger_id: _Optional[int] = ..., entry_id: _Optional[int] = ..., unacked: _Optional[bytes] = ...) -> None: ...
