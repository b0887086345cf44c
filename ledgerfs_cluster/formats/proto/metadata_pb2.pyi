from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
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

class SchemaIndexRecord(_message.Message):
    __slots__ = ("version", "position", "hash")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    HASH_FIELD_NUMBER: _ClassVar[int]
    version: int
    position: PositionRecord
    hash: bytes
    def __init__(self, version: _Optional[int] = ..., position: _Optional[_Union[PositionRecord, _Mapping]] = ..., hash: _Optional[bytes] = ...) -> None: ...

class SchemaLocatorRecord(_message.Message):
    __slots__ = ("newest", "index")
    NEWEST_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    newest: SchemaIndexRecord
    index: _containers.RepeatedCompositeFieldContainer[SchemaIndexRecord]
    def __init__(self, newest: _Optional[_Union[SchemaIndexRecord, _Mapping]] = ..., index: _Optional[_Iterable[_Union[SchemaIndexRecord, _Mapping]]] = ...) -> None: ...

class SchemaEntryRecord(_message.Message):
    __slots__ = ("schema", "index")
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    schema: SchemaRecord
    index: _containers.RepeatedCompositeFieldContainer[SchemaIndexRecord]
    def __init__(self, schema: _Optional[_Union[SchemaRecord, _Mapping]] = ..., index: _Optional[_Iterable[_Union[SchemaIndexRecord, _Mapping]]] = ...) -> None: ...

class SchemaRecord(_message.Message):
    __slots__ = ("topic", "user", "type", "data", "timestamp", "deleted", "property")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    PROPERTY_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    user: bytes
    type: int
    data: bytes
    timestamp: int
    deleted: bool
    property: _containers.RepeatedCompositeFieldContainer[TextPropertyRecord]
    def __init__(self, topic: _Optional[bytes] = ..., user: _Optional[bytes] = ..., type: _Optional[int] = ..., data: _Optional[bytes] = ..., timestamp: _Optional[int] = ..., deleted: bool = ..., property: _Optional[_Iterable[_Union[TextPropertyRecord, _Mapping]]] = ...) -> None: ...

class LedgerText(_message.Message):
    __slots__ = ("quorumSize", "ensembleSize", "length", "lastEntryId", "state", "segment", "digestType", "password", "ackQuorumSize", "ctime", "customMetadata", "cToken")
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        OPEN: _ClassVar[LedgerText.State]
        IN_RECOVERY: _ClassVar[LedgerText.State]
        CLOSED: _ClassVar[LedgerText.State]
    OPEN: LedgerText.State
    IN_RECOVERY: LedgerText.State
    CLOSED: LedgerText.State
    class DigestType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        CRC32: _ClassVar[LedgerText.DigestType]
        HMAC: _ClassVar[LedgerText.DigestType]
        CRC32C: _ClassVar[LedgerText.DigestType]
        DUMMY: _ClassVar[LedgerText.DigestType]
    CRC32: LedgerText.DigestType
    HMAC: LedgerText.DigestType
    CRC32C: LedgerText.DigestType
    DUMMY: LedgerText.DigestType
    class Segment(_message.Message):
        __slots__ = ("ensembleMember", "firstEntryId")
        ENSEMBLEMEMBER_FIELD_NUMBER: _ClassVar[int]
        FIRSTENTRYID_FIELD_NUMBER: _ClassVar[int]
        ensembleMember: _containers.RepeatedScalarFieldContainer[bytes]
        firstEntryId: int
        def __init__(self, ensembleMember: _Optional[_Iterable[bytes]] = ..., firstEntryId: _Optional[int] = ...) -> None: ...
    class CustomMetadata(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: bytes
        value: bytes
        def __init__(self, key: _Optional[bytes] = ..., value: _Optional[bytes] = ...) -> None: ...
    QUORUMSIZE_FIELD_NUMBER: _ClassVar[int]
    ENSEMBLESIZE_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    LASTENTRYID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    DIGESTTYPE_FIELD_NUMBER: _ClassVar[int]
    PASSWORD_FIELD_NUMBER: _ClassVar[int]
    ACKQUORUMSIZE_FIELD_NUMBER: _ClassVar[int]
    CTIME_FIELD_NUMBER: _ClassVar[int]
    CUSTOMMETADATA_FIELD_NUMBER: _ClassVar[int]
    CTOKEN_FIELD_NUMBER: _ClassVar[int]
    quorumSize: int
    ensembleSize: int
    length: int
    lastEntryId: int
    state: LedgerText.State
    segment: _containers.RepeatedCompositeFieldContainer[LedgerText.Segment]
    digestType: LedgerText.DigestType
    password: bytes
    ackQuorumSize: int
    ctime: int
    customMetadata: _containers.RepeatedCompositeFieldContainer[LedgerText.CustomMetadata]
    cToken: int
    def __init__(self, quorumSize: _Optional[int] = ..., ensembleSize: _Optional[int] = ..., length: _Optional[int] = ..., lastEntryId: _Optional[int] = ..., state: _Optional[_Union[LedgerText.State, str]] = ..., segment: _Optional[_Iterable[_Union[LedgerText.Segment, _Mapping]]] = ..., digestType: _Optional[_Union[LedgerText.DigestType, str]] = ..., password: _Optional[bytes] = ..., ackQuorumSize: _Optional[int] = ..., ctime: _Optional[int] = ..., customMetadata: _Optional[_Iterable[_Union[LedgerText.CustomMetadata, _Mapping]]] = ..., cToken: _Optional[int] = ...) -> None: ...

class CookieText(_message.Message):
    __slots__ = ("bookieHost", "instanceId")
    BOOKIEHOST_FIELD_NUMBER: _ClassVar[int]
    INSTANCEID_FIELD_NUMBER: _ClassVar[int]
    bookieHost: bytes
    instanceId: bytes
    def __init__(self, bookieHost: _Optional[bytes] = ..., instanceId: _Optional[bytes] = ...) -> None: ...
