from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class EnvelopeRecord(_message.Message):
    __slots__ = ("compression", "uncompressed_size")
    COMPRESSION_FIELD_NUMBER: _ClassVar[int]
    UNCOMPRESSED_SIZE_FIELD_NUMBER: _ClassVar[int]
    compression: int
    uncompressed_size: int
    def __init__(self, compression: _Optional[int] = ..., uncompressed_size: _Optional[int] = ...) -> None: ...

class PositionRecord(_message.Message):
    __slots__ = ("ledger_id", "entry_id")
    LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
    ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    ledger_id: int
    entry_id: int
    def __init__(self, ledger_id: _Optional[int] = ..., entry_id: _Optional[int] = ...) -> None: ...

class TextPropertyRecord(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    value: bytes
    def __init__(self, key: _Optional[bytes] = ..., value: _Optional[bytes] = ...) -> None: ...

class NumberPropertyRecord(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: bytes
    value: int
    def __init__(self, name: _Optional[bytes] = ..., value: _Optional[int] = ...) -> None: ...

class OffloadDriverRecord(_message.Message):
    __slots__ = ("name", "property")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PROPERTY_FIELD_NUMBER: _ClassVar[int]
    name: bytes
    property: _containers.RepeatedCompositeFieldContainer[TextPropertyRecord]
    def __init__(self, name: _Optional[bytes] = ..., property: _Optional[_Iterable[_Union[TextPropertyRecord, _Mapping]]] = ...) -> None: ...

class OffloadContextRecord(_message.Message):
    __slots__ = ("uuid_high", "uuid_low", "complete", "bookkeeper_deleted", "timestamp", "driver", "segment")
    UUID_HIGH_FIELD_NUMBER: _ClassVar[int]
    UUID_LOW_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    BOOKKEEPER_DELETED_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    DRIVER_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    uuid_high: int
    uuid_low: int
    complete: bool
    bookkeeper_deleted: bool
    timestamp: int
    driver: bytes
    segment: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, uuid_high: _Optional[int] = ..., uuid_low: _Optional[int] = ..., complete: bool = ..., bookkeeper_deleted: bool = ..., timestamp: _Optional[int] = ..., driver: _Optional[bytes] = ..., segment: _Optional[_Iterable[bytes]] = ...) -> None: ...

class ManagedLedgerRecord(_message.Message):
    __slots__ = ("ledger", "terminated", "property")
    class Ledger(_message.Message):
        __slots__ = ("ledger_id", "entries", "size", "timestamp", "context", "property")
        LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
        ENTRIES_FIELD_NUMBER: _ClassVar[int]
        SIZE_FIELD_NUMBER: _ClassVar[int]
        TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
        CONTEXT_FIELD_NUMBER: _ClassVar[int]
        PROPERTY_FIELD_NUMBER: _ClassVar[int]
        ledger_id: int
        entries: int
        size: int
        timestamp: int
        context: OffloadContextRecord
        property: _containers.RepeatedCompositeFieldContainer[TextPropertyRecord]
        def __init__(self, ledger_id: _Optional[int] = ..., entries: _Optional[int] = ..., size: _Optional[int] = ..., timestamp: _Optional[int] = ..., context: _Optional[_Union[OffloadContextRecord, _Mapping]] = ..., property: _Optional[_Iterable[_Union[TextPropertyRecord, _Mapping]]] = ...) -> None: ...
    LEDGER_FIELD_NUMBER: _ClassVar[int]
    TERMINATED_FIELD_NUMBER: _ClassVar[int]
    PROPERTY_FIELD_NUMBER: _ClassVar[int]
    ledger: _containers.RepeatedCompositeFieldContainer[ManagedLedgerRecord.Ledger]
    terminated: PositionRecord
    property: _containers.RepeatedCompositeFieldContainer[TextPropertyRecord]
    def __init__(self, ledger: _Optional[_Iterable[_Union[ManagedLedgerRecord.Ledger, _Mapping]]] = ..., terminated: _Optional[_Union[PositionRecord, _Mapping]] = ..., property: _Optional[_Iterable[_Union[TextPropertyRecord, _Mapping]]] = ...) -> None: ...

class DeletedRangeRecord(_message.Message):
    __slots__ = ("lower", "upper")
    LOWER_FIELD_NUMBER: _ClassVar[int]
    UPPER_FIELD_NUMBER: _ClassVar[int]
    lower: PositionRecord
    upper: PositionRecord
    def __init__(self, lower: _Optional[_Union[PositionRecord, _Mapping]] = ..., upper: _Optional[_Union[PositionRecord, _Mapping]] = ...) -> None: ...

class PartlyDeletedRecord(_message.Message):
    __slots__ = ("position", "words")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    WORDS_FIELD_NUMBER: _ClassVar[int]
    position: PositionRecord
    words: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, position: _Optional[_Union[PositionRecord, _Mapping]] = ..., words: _Optional[_Iterable[int]] = ...) -> None: ...

class DeletedBitsRecord(_message.Message):
    __slots__ = ("ledger_id", "words")
    LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
    WORDS_FIELD_NUMBER: _ClassVar[int]
    ledger_id: int
    words: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, ledger_id: _Optional[int] = ..., words: _Optional[_Iterable[int]] = ...) -> None: ...

class CursorRecord(_message.Message):
    __slots__ = ("cursors_ledger", "ledger_id", "entry_id", "deleted", "property", "last_active", "partly_deleted", "cursor_property")
    CURSORS_LEDGER_FIELD_NUMBER: _ClassVar[int]
    LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
    ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    PROPERTY_FIELD_NUMBER: _ClassVar[int]
    LAST_ACTIVE_FIELD_NUMBER: _ClassVar[int]
    PARTLY_DELETED_FIELD_NUMBER: _ClassVar[int]
    CURSOR_PROPERTY_FIELD_NUMBER: _ClassVar[int]
    cursors_ledger: int
    ledger_id: int
    entry_id: int
    deleted: _containers.RepeatedCompositeFieldContainer[DeletedRangeRecord]
    property: _containers.RepeatedCompositeFieldContainer[NumberPropertyRecord]
    last_active: int
    partly_deleted: _containers.RepeatedCompositeFieldContainer[PartlyDeletedRecord]
    cursor_property: _containers.RepeatedCompositeFieldContainer[TextPropertyRecord]
    def __init__(self, cursors_ledger: _Optional[int] = ..., ledger_id: _Optional[int] = ..., entry_id: _Optional[int] = ..., deleted: _Optional[_Iterable[_Union[DeletedRangeRecord, _Mapping]]] = ..., property: _Optional[_Iterable[_Union[NumberPropertyRecord, _Mapping]]] = ..., last_active: _Optional[int] = ..., partly_deleted: _Optional[_Iterable[_Union[PartlyDeletedRecord, _Mapping]]] = ..., cursor_property: _Optional[_Iterable[_Union[TextPropertyRecord, _Mapping]]] = ...) -> None: ...

class CursorPositionRecord(_message.Message):
    __slots__ = ("ledger_id", "entry_id", "deleted", "property", "partly_deleted", "deleted_bits")
    LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
    ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    PROPERTY_FIELD_NUMBER: _ClassVar[int]
    PARTLY_DELETED_FIELD_NUMBER: _ClassVar[int]
    DELETED_BITS_FIELD_NUMBER: _ClassVar[int]
    ledger_id: int
    entry_id: int
    deleted: _containers.RepeatedCompositeFieldContainer[DeletedRangeRecord]
    property: _containers.RepeatedCompositeFieldContainer[NumberPropertyRecord]
    partly_deleted: _containers.RepeatedCompositeFieldContainer[PartlyDeletedRecord]
    deleted_bits: _containers.RepeatedCompositeFieldContainer[DeletedBitsRecord]
    def __init__(self, ledger_id: _Optional[int] = ..., entry_id: _Optional[int] = ..., deleted: _Optional[_Iterable[_Union[DeletedRangeRecord, _Mapping]]] = ..., property: _Optional[_Iterable[_Union[NumberPropertyRecord, _Mapping]]] = ..., partly_deleted: _Optional[_Iterable[_Union[PartlyDeletedRecord, _Mapping]]] = ..., deleted_bits: _Optional[_Iterable[_Union[DeletedBitsRecord, _Mapping]]] = ...) -> None: ...
