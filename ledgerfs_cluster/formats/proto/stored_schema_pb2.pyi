from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SchemaPositionRecord(_message.Message):
    __slots__ = ("ledger_id", "entry_id")
    LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
    ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    ledger_id: int
    entry_id: int
    def __init__(self, ledger_id: _Optional[int] = ..., entry_id: _Optional[int] = ...) -> None: ...

class SchemaIndexRecord(_message.Message):
    __slots__ = ("version", "position", "hash")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    HASH_FIELD_NUMBER: _ClassVar[int]
    version: int
    position: SchemaPositionRecord
    hash: bytes
    def __init__(self, version: _Optional[int] = ..., position: _Optional[_Union[SchemaPositionRecord, _Mapping]] = ..., hash: _Optional[bytes] = ...) -> None: ...

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
    class Property(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: bytes
        value: bytes
        def __init__(self, key: _Optional[bytes] = ..., value: _Optional[bytes] = ...) -> None: ...
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
    property: _containers.RepeatedCompositeFieldContainer[SchemaRecord.Property]
    def __init__(self, topic: _Optional[bytes] = ..., user: _Optional[bytes] = ..., type: _Optional[int] = ..., data: _Optional[bytes] = ..., timestamp: _Optional[int] = ..., deleted: bool = ..., property: _Optional[_Iterable[_Union[SchemaRecord.Property, _Mapping]]] = ...) -> None: ...
