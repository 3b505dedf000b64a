from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Operation(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    UNKNOWN_OPERATION: _ClassVar[Operation]
    ACK: _ClassVar[Operation]
    COMMIT: _ClassVar[Operation]
    ABORT: _ClassVar[Operation]
UNKNOWN_OPERATION: Operation
ACK: Operation
COMMIT: Operation
ABORT: Operation

class AckedEntry(_message.Message):
    __slots__ = ("ledger_id", "entry_id", "unacked_words", "batch_size")
    LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
    ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    UNACKED_WORDS_FIELD_NUMBER: _ClassVar[int]
    BATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    ledger_id: int
    entry_id: int
    unacked_words: _containers.RepeatedScalarFieldContainer[int]
    batch_size: int
    def __init__(self, ledger_id: _Optional[int] = ..., entry_id: _Optional[int] = ..., unacked_words: _Optional[_Iterable[int]] = ..., batch_size: _Optional[int] = ...) -> None: ...

class Record(_message.Message):
    __slots__ = ("operation", "ack_type", "txnid_least_bits", "txnid_most_bits", "acked")
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    ACK_TYPE_FIELD_NUMBER: _ClassVar[int]
    TXNID_LEAST_BITS_FIELD_NUMBER: _ClassVar[int]
    TXNID_MOST_BITS_FIELD_NUMBER: _ClassVar[int]
    ACKED_FIELD_NUMBER: _ClassVar[int]
    operation: Operation
    ack_type: int
    txnid_least_bits: int
    txnid_most_bits: int
    acked: _containers.RepeatedCompositeFieldContainer[AckedEntry]
    def __init__(self, operation: _Optional[_Union[Operation, str]] = ..., ack_type: _Optional[int] = ..., txnid_least_bits: _Optional[int] = ..., txnid_most_bits: _Optional[int] = ..., acked: _Optional[_Iterable[_Union[AckedEntry, _Mapping]]] = ...) -> None: ...

class Batch(_message.Message):
    __slots__ = ("records",)
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    records: _containers.RepeatedCompositeFieldContainer[Record]
    def __init__(self, records: _Optional[_Iterable[_Union[Record, _Mapping]]] = ...) -> None: ...
