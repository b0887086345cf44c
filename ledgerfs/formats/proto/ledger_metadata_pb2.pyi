from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LedgerMetadataRecord(_message.Message):
    __slots__ = ("write_quorum", "ensemble_size", "length", "last_entry", "state", "ensemble", "digest_type", "password", "ack_quorum", "created_ms", "custom")
    class Ensemble(_message.Message):
        __slots__ = ("bookie", "first_entry")
        BOOKIE_FIELD_NUMBER: _ClassVar[int]
        FIRST_ENTRY_FIELD_NUMBER: _ClassVar[int]
        bookie: _containers.RepeatedScalarFieldContainer[bytes]
        first_entry: int
        def __init__(self, bookie: _Optional[_Iterable[bytes]] = ..., first_entry: _Optional[int] = ...) -> None: ...
    class CustomField(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: bytes
        value: bytes
        def __init__(self, key: _Optional[bytes] = ..., value: _Optional[bytes] = ...) -> None: ...
    WRITE_QUORUM_FIELD_NUMBER: _ClassVar[int]
    ENSEMBLE_SIZE_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    LAST_ENTRY_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ENSEMBLE_FIELD_NUMBER: _ClassVar[int]
    DIGEST_TYPE_FIELD_NUMBER: _ClassVar[int]
    PASSWORD_FIELD_NUMBER: _ClassVar[int]
    ACK_QUORUM_FIELD_NUMBER: _ClassVar[int]
    CREATED_MS_FIELD_NUMBER: _ClassVar[int]
    CUSTOM_FIELD_NUMBER: _ClassVar[int]
    write_quorum: int
    ensemble_size: int
    length: int
    last_entry: int
    state: int
    ensemble: _containers.RepeatedCompositeFieldContainer[LedgerMetadataRecord.Ensemble]
    digest_type: int
    password: bytes
    ack_quorum: int
    created_ms: int
    custom: _containers.RepeatedCompositeFieldContainer[LedgerMetadataRecord.CustomField]
    def __init__(self, write_quorum: _Optional[int] = ..., ensemble_size: _Optional[int] = ..., length: _Optional[int] = ..., last_entry: _Optional[int] = ..., state: _Optional[int] = ..., ensemble: _Optional[_Iterable[_Union[LedgerMetadataRecord.Ensemble, _Mapping]]] = ..., digest_type: _Optional[int] = ..., password: _Optional[bytes] = ..., ack_quorum: _Optional[int] = ..., created_ms: _Optional[int] = ..., custom: _Optional[_Iterable[_Union[LedgerMetadataRecord.CustomField, _Mapping]]] = ...) -> None: ...
