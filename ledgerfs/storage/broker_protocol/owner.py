"""The broker that has a topic: whoever is asked leads to it, and a proxy goes between."""

from dataclasses import dataclass

from ledgerfs.display import printable
from ledgerfs.errors import BrokerRefusalError, InvalidOptionError
from ledgerfs.formats.broker_protocol.commands import Command, LookupAnswer, look_up
from ledgerfs.formats.broker_protocol.proto.commands_pb2 import LookupAnswerRecord
from ledgerfs.storage.broker_protocol.connection import BrokerConnection
from ledgerfs.storage.broker_protocol.refusals import refusal
from ledgerfs.storage.broker_protocol.service import BrokerAddress, BrokerService, parse_addresses

_MOST_REDIRECTS = 20


@dataclass(frozen=True, slots=True)
class _Place:
    """Where to connect: with a broker, or with a proxy for one."""

    address: BrokerAddress
    proxied_to: str | None = None


def connect_to_owner(service: BrokerService, topic: str, attempt: int, *, seconds: float) -> BrokerConnection:
    """Return a connection with the broker that has a topic.

    Parameters
    ----------
    service
        Where to begin.
    topic
        ``persistent://tenant/namespace/name``.
    attempt
        Which try it is, so that each begins with another address.
    seconds
        How long each connection may take, and each answer.

    Raises
    ------
    AuthenticationError, AccessDeniedError, NotFoundError, InvalidNameError
        The broker refuses, and would again.
    BrokerRefusalError
        It refuses for another reason, or leads from one broker to the next without end, or from TLS to where there is none.
    OSError
        As sockets raise it: another try may succeed.

    """
    start = service.addresses[attempt % len(service.addresses)]
    place, is_authoritative = _Place(start), False
    for _ in range(_MOST_REDIRECTS):
        connection = BrokerConnection(service, place.address, place.proxied_to, seconds=seconds)
        try:
            answer = _asked(connection, topic, is_authoritative=is_authoritative)
            target = _target(answer, start, key=f"{topic} at {connection.name}")
            if answer.answer == LookupAnswer.CONNECT and target == place:
                return connection
        except BaseException:
            connection.close()
            raise
        connection.close()
        if answer.answer == LookupAnswer.CONNECT:
            return BrokerConnection(service, target.address, target.proxied_to, seconds=seconds)
        place, is_authoritative = target, answer.is_authoritative
    raise BrokerRefusalError(
        f"the brokers lead from one to the next more than {_MOST_REDIRECTS} times", key=f"{topic} at {start}"
    )


def _asked(connection: BrokerConnection, topic: str, *, is_authoritative: bool) -> LookupAnswerRecord:
    number = connection.number()
    answer = connection.ask(look_up(topic, number, is_authoritative=is_authoritative), number)
    key = f"{topic} at {connection.name}"
    if answer.type == Command.ERROR:
        raise refusal(answer.error.error, answer.error.message, key=key)
    found = answer.lookup_answer
    if answer.type != Command.LOOKUP_ANSWER or found.answer not in {LookupAnswer.REDIRECT, LookupAnswer.CONNECT}:
        raise refusal(found.error, found.message, key=key)
    return found


def _target(answer: LookupAnswerRecord, start: BrokerAddress, *, key: str) -> _Place:
    """Return where an answer leads to: without TLS only if it began without."""
    plain, secured = answer.url, answer.url_of_tls
    told = secured if start.has_tls else plain or secured
    if not told:
        raise BrokerRefusalError(
            "the broker leads to one that has no address with TLS" if start.has_tls else "the broker leads nowhere",
            key=key,
        )
    text = told.decode(errors="replace")
    try:
        (address, *_) = parse_addresses(text)
    except InvalidOptionError as error:
        raise BrokerRefusalError(
            f"the broker leads to {printable(text[:200])!r}, which is no address", key=key
        ) from error
    if start.has_tls and not address.has_tls:
        raise BrokerRefusalError(f"the broker leads to {address}, which is without TLS", key=key)
    return _Place(start, address.authority) if answer.through_service else _Place(address)
