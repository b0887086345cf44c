from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PositionRecord(_message.Message):
    __slots__ = ("ledger_id", "entry_id")
    LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
    ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    ledger_id: int
    entry_id: int
    def __init__(self, ledger_id: _Optional[int] = ..., entry_id: _Optional[int] = ...) -> None: ...

class ConnectRecord(_message.Message):
    __slots__ = ("client_version", "login", "protocol_version", "login_method", "proxied_to")
    CLIENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    LOGIN_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    LOGIN_METHOD_FIELD_NUMBER: _ClassVar[int]
    PROXIED_TO_FIELD_NUMBER: _ClassVar[int]
    client_version: str
    login: bytes
    protocol_version: int
    login_method: str
    proxied_to: str
    def __init__(self, client_version: _Optional[str] = ..., login: _Optional[bytes] = ..., protocol_version: _Optional[int] = ..., login_method: _Optional[str] = ..., proxied_to: _Optional[str] = ...) -> None: ...

class ConnectedRecord(_message.Message):
    __slots__ = ("server_version", "protocol_version", "largest_message")
    SERVER_VERSION_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    LARGEST_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    server_version: bytes
    protocol_version: int
    largest_message: int
    def __init__(self, server_version: _Optional[bytes] = ..., protocol_version: _Optional[int] = ..., largest_message: _Optional[int] = ...) -> None: ...

class SubscribeRecord(_message.Message):
    __slots__ = ("topic", "subscription", "kind", "consumer_id", "request_id", "is_durable", "start", "read_compacted", "initial_position", "creates_topic")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    IS_DURABLE_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    READ_COMPACTED_FIELD_NUMBER: _ClassVar[int]
    INITIAL_POSITION_FIELD_NUMBER: _ClassVar[int]
    CREATES_TOPIC_FIELD_NUMBER: _ClassVar[int]
    topic: str
    subscription: str
    kind: int
    consumer_id: int
    request_id: int
    is_durable: bool
    start: PositionRecord
    read_compacted: bool
    initial_position: int
    creates_topic: bool
    def __init__(self, topic: _Optional[str] = ..., subscription: _Optional[str] = ..., kind: _Optional[int] = ..., consumer_id: _Optional[int] = ..., request_id: _Optional[int] = ..., is_durable: bool = ..., start: _Optional[_Union[PositionRecord, _Mapping]] = ..., read_compacted: bool = ..., initial_position: _Optional[int] = ..., creates_topic: bool = ...) -> None: ...

class LookupRecord(_message.Message):
    __slots__ = ("topic", "request_id", "is_authoritative")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    IS_AUTHORITATIVE_FIELD_NUMBER: _ClassVar[int]
    topic: str
    request_id: int
    is_authoritative: bool
    def __init__(self, topic: _Optional[str] = ..., request_id: _Optional[int] = ..., is_authoritative: bool = ...) -> None: ...

class LookupAnswerRecord(_message.Message):
    __slots__ = ("url", "url_of_tls", "answer", "request_id", "is_authoritative", "error", "message", "through_service")
    URL_FIELD_NUMBER: _ClassVar[int]
    URL_OF_TLS_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    IS_AUTHORITATIVE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    THROUGH_SERVICE_FIELD_NUMBER: _ClassVar[int]
    url: bytes
    url_of_tls: bytes
    answer: int
    request_id: int
    is_authoritative: bool
    error: int
    message: bytes
    through_service: bool
    def __init__(self, url: _Optional[bytes] = ..., url_of_tls: _Optional[bytes] = ..., answer: _Optional[int] = ..., request_id: _Optional[int] = ..., is_authoritative: bool = ..., error: _Optional[int] = ..., message: _Optional[bytes] = ..., through_service: bool = ...) -> None: ...

class MessageRecord(_message.Message):
    __slots__ = ("consumer_id", "position")
    CONSUMER_ID_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    consumer_id: int
    position: PositionRecord
    def __init__(self, consumer_id: _Optional[int] = ..., position: _Optional[_Union[PositionRecord, _Mapping]] = ...) -> None: ...

class FlowRecord(_message.Message):
    __slots__ = ("consumer_id", "permits")
    CONSUMER_ID_FIELD_NUMBER: _ClassVar[int]
    PERMITS_FIELD_NUMBER: _ClassVar[int]
    consumer_id: int
    permits: int
    def __init__(self, consumer_id: _Optional[int] = ..., permits: _Optional[int] = ...) -> None: ...

class SuccessRecord(_message.Message):
    __slots__ = ("request_id",)
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: int
    def __init__(self, request_id: _Optional[int] = ...) -> None: ...

class ErrorRecord(_message.Message):
    __slots__ = ("request_id", "error", "message")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    request_id: int
    error: int
    message: bytes
    def __init__(self, request_id: _Optional[int] = ..., error: _Optional[int] = ..., message: _Optional[bytes] = ...) -> None: ...

class CloseConsumerRecord(_message.Message):
    __slots__ = ("consumer_id", "request_id")
    CONSUMER_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    consumer_id: int
    request_id: int
    def __init__(self, consumer_id: _Optional[int] = ..., request_id: _Optional[int] = ...) -> None: ...

class LastPositionRecord(_message.Message):
    __slots__ = ("consumer_id", "request_id")
    CONSUMER_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    consumer_id: int
    request_id: int
    def __init__(self, consumer_id: _Optional[int] = ..., request_id: _Optional[int] = ...) -> None: ...

class LastPositionAnswerRecord(_message.Message):
    __slots__ = ("position", "request_id")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    position: PositionRecord
    request_id: int
    def __init__(self, position: _Optional[_Union[PositionRecord, _Mapping]] = ..., request_id: _Optional[int] = ...) -> None: ...

class NothingRecord(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CommandRecord(_message.Message):
    __slots__ = ("type", "connect", "connected", "subscribe", "message", "flow", "success", "error", "close_consumer", "ping", "pong", "lookup", "lookup_answer", "last_position", "last_position_answer", "login_challenge")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    CONNECT_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIBE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    FLOW_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    CLOSE_CONSUMER_FIELD_NUMBER: _ClassVar[int]
    PING_FIELD_NUMBER: _ClassVar[int]
    PONG_FIELD_NUMBER: _ClassVar[int]
    LOOKUP_FIELD_NUMBER: _ClassVar[int]
    LOOKUP_ANSWER_FIELD_NUMBER: _ClassVar[int]
    LAST_POSITION_FIELD_NUMBER: _ClassVar[int]
    LAST_POSITION_ANSWER_FIELD_NUMBER: _ClassVar[int]
    LOGIN_CHALLENGE_FIELD_NUMBER: _ClassVar[int]
    type: int
    connect: ConnectRecord
    connected: ConnectedRecord
    subscribe: SubscribeRecord
    message: MessageRecord
    flow: FlowRecord
    success: SuccessRecord
    error: ErrorRecord
    close_consumer: CloseConsumerRecord
    ping: NothingRecord
    pong: NothingRecord
    lookup: LookupRecord
    lookup_answer: LookupAnswerRecord
    last_position: LastPositionRecord
    last_position_answer: LastPositionAnswerRecord
    login_challenge: NothingRecord
    def __init__(self, type: _Optional[int] = ..., connect: _Optional[_Union[ConnectRecord, _Mapping]] = ..., connected: _Optional[_Union[ConnectedRecord, _Mapping]] = ..., subscribe: _Optional[_Union[SubscribeRecord, _Mapping]] = ..., message: _Optional[_Union[MessageRecord, _Mapping]] = ..., flow: _Optional[_Union[FlowRecord, _Mapping]] = ..., success: _Optional[_Union[SuccessRecord, _Mapping]] = ..., error: _Optional[_Union[ErrorRecord, _Mapping]] = ..., close_consumer: _Optional[_Union[CloseConsumerRecord, _Mapping]] = ..., ping: _Optional[_Union[NothingRecord, _Mapping]] = ..., pong: _Optional[_Union[NothingRecord, _Mapping]] = ..., lookup: _Optional[_Union[LookupRecord, _Mapping]] = ..., lookup_answer: _Optional[_Union[LookupAnswerRecord, _Mapping]] = ..., last_position: _Optional[_Union[LastPositionRecord, _Mapping]] = ..., last_position_answer: _Optional[_Union[LastPositionAnswerRecord, _Mapping]] = ..., login_challenge: _Optional[_Union[NothingRecord, _Mapping]] = ...) -> None: ...
