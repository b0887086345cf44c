from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class BrokerMetadataRecord(_message.Message):
    __slots__ = ("broker_time_ms", "last_index")
    BROKER_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    broker_time_ms: int
    last_index: int
    def __init__(self, broker_time_ms: _Optional[int] = ..., last_index: _Optional[int] = ...) -> None: ...

class Property(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    value: bytes
    def __init__(self, key: _Optional[bytes] = ..., value: _Optional[bytes] = ...) -> None: ...

class EncryptionKey(_message.Message):
    __slots__ = ("name", "wrapped", "metadata")
    NAME_FIELD_NUMBER: _ClassVar[int]
    WRAPPED_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    name: bytes
    wrapped: bytes
    metadata: _containers.RepeatedCompositeFieldContainer[Property]
    def __init__(self, name: _Optional[bytes] = ..., wrapped: _Optional[bytes] = ..., metadata: _Optional[_Iterable[_Union[Property, _Mapping]]] = ...) -> None: ...

class MessageMetadataRecord(_message.Message):
    __slots__ = ("producer_name", "sequence_id", "publish_time_ms", "property", "replicated_from", "key", "replicate_to", "compression", "uncompressed_size", "messages_in_batch", "event_time_ms", "encryption_key", "encryption_algorithm", "encryption_iv", "schema_version", "key_is_base64", "ordering_key", "deliver_at_ms", "marker_type", "transaction_least", "transaction_most", "highest_sequence_id", "value_is_null", "chunked_id", "chunks", "chunked_size", "chunk", "key_is_null", "kept_index", "schema_id")
    PRODUCER_NAME_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_ID_FIELD_NUMBER: _ClassVar[int]
    PUBLISH_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    PROPERTY_FIELD_NUMBER: _ClassVar[int]
    REPLICATED_FROM_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    REPLICATE_TO_FIELD_NUMBER: _ClassVar[int]
    COMPRESSION_FIELD_NUMBER: _ClassVar[int]
    UNCOMPRESSED_SIZE_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_IN_BATCH_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    ENCRYPTION_KEY_FIELD_NUMBER: _ClassVar[int]
    ENCRYPTION_ALGORITHM_FIELD_NUMBER: _ClassVar[int]
    ENCRYPTION_IV_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_VERSION_FIELD_NUMBER: _ClassVar[int]
    KEY_IS_BASE64_FIELD_NUMBER: _ClassVar[int]
    ORDERING_KEY_FIELD_NUMBER: _ClassVar[int]
    DELIVER_AT_MS_FIELD_NUMBER: _ClassVar[int]
    MARKER_TYPE_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_LEAST_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_MOST_FIELD_NUMBER: _ClassVar[int]
    HIGHEST_SEQUENCE_ID_FIELD_NUMBER: _ClassVar[int]
    VALUE_IS_NULL_FIELD_NUMBER: _ClassVar[int]
    CHUNKED_ID_FIELD_NUMBER: _ClassVar[int]
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    CHUNKED_SIZE_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    KEY_IS_NULL_FIELD_NUMBER: _ClassVar[int]
    KEPT_INDEX_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_ID_FIELD_NUMBER: _ClassVar[int]
    producer_name: bytes
    sequence_id: int
    publish_time_ms: int
    property: _containers.RepeatedCompositeFieldContainer[Property]
    replicated_from: bytes
    key: bytes
    replicate_to: _containers.RepeatedScalarFieldContainer[bytes]
    compression: int
    uncompressed_size: int
    messages_in_batch: int
    event_time_ms: int
    encryption_key: _containers.RepeatedCompositeFieldContainer[EncryptionKey]
    encryption_algorithm: bytes
    encryption_iv: bytes
    schema_version: bytes
    key_is_base64: bool
    ordering_key: bytes
    deliver_at_ms: int
    marker_type: int
    transaction_least: int
    transaction_most: int
    highest_sequence_id: int
    value_is_null: bool
    chunked_id: bytes
    chunks: int
    chunked_size: int
    chunk: int
    key_is_null: bool
    kept_index: _containers.RepeatedScalarFieldContainer[int]
    schema_id: bytes
    def __init__(self, producer_name: _Optional[bytes] = ..., sequence_id: _Optional[int] = ..., publish_time_ms: _Optional[int] = ..., property: _Optional[_Iterable[_Union[Property, _Mapping]]] = ..., replicated_from: _Optional[bytes] = ..., key: _Optional[bytes] = ..., replicate_to: _Optional[_Iterable[bytes]] = ..., compression: _Optional[int] = ..., uncompressed_size: _Optional[int] = ..., messages_in_batch: _Optional[int] = ..., event_time_ms: _Optional[int] = ..., encryption_key: _Optional[_Iterable[_Union[EncryptionKey, _Mapping]]] = ..., encryption_algorithm: _Optional[bytes] = ..., encryption_iv: _Optional[bytes] = ..., schema_version: _Optional[bytes] = ..., key_is_base64: bool = ..., ordering_key: _Optional[bytes] = ..., deliver_at_ms: _Optional[int] = ..., marker_type: _Optional[int] = ..., transaction_least: _Optional[int] = ..., transaction_most: _Optional[int] = ..., highest_sequence_id: _Optional[int] = ..., value_is_null: bool = ..., chunked_id: _Optional[bytes] = ..., chunks: _Optional[int] = ..., chunked_size: _Optional[int] = ..., chunk: _Optional[int] = ..., key_is_null: bool = ..., kept_index: _Optional[_Iterable[int]] = ..., schema_id: _Optional[bytes] = ...) -> None: ...

class BatchedMetadataRecord(_message.Message):
    __slots__ = ("property", "key", "payload_size", "compacted_out", "event_time_ms", "key_is_base64", "ordering_key", "sequence_id", "value_is_null", "key_is_null")
    PROPERTY_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_SIZE_FIELD_NUMBER: _ClassVar[int]
    COMPACTED_OUT_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    KEY_IS_BASE64_FIELD_NUMBER: _ClassVar[int]
    ORDERING_KEY_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_ID_FIELD_NUMBER: _ClassVar[int]
    VALUE_IS_NULL_FIELD_NUMBER: _ClassVar[int]
    KEY_IS_NULL_FIELD_NUMBER: _ClassVar[int]
    property: _containers.RepeatedCompositeFieldContainer[Property]
    key: bytes
    payload_size: int
    compacted_out: bool
    event_time_ms: int
    key_is_base64: bool
    ordering_key: bytes
    sequence_id: int
    value_is_null: bool
    key_is_null: bool
    def __init__(self, property: _Optional[_Iterable[_Union[Property, _Mapping]]] = ..., key: _Optional[bytes] = ..., payload_size: _Optional[int] = ..., compacted_out: bool = ..., event_time_ms: _Optional[int] = ..., key_is_base64: bool = ..., ordering_key: _Optional[bytes] = ..., sequence_id: _Optional[int] = ..., value_is_null: bool = ..., key_is_null: bool = ...) -> None: ...
