"""Where brokers listen, and who asks them."""

import ssl
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from ledgerfs.display import printable
from ledgerfs.errors import InvalidOptionError

_PORTS = {"pulsar": 6650, "pulsar+ssl": 6651}
_MOST_LOOKS = 3
_EXPECTED = "expected the address of brokers: pulsar://host:6650, or pulsar+ssl://host:6651"


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """Where one broker or proxy listens; the host of IPv6 is without brackets."""

    host: str
    port: int
    has_tls: bool

    @property
    def authority(self) -> str:
        """``host:port``, with brackets around IPv6."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{'pulsar+ssl' if self.has_tls else 'pulsar'}://{self.authority}"


@dataclass(frozen=True, slots=True)
class BrokerService:
    """The brokers of a cluster, or a proxy before them.

    Attributes
    ----------
    addresses
        Where to begin; each try takes the next one.
    token
        Who asks; None for nobody, or whoever the certificate is of. Brokers to which the first one leads get it, too, but never without TLS
        after TLS.
    tls
        With which certificates; None for those that the system trusts.
    has_certificate
        Whether ``tls`` has one of the client's own, which tells who asks.
    silence_s
        How long nothing may come, in seconds, before the broker is asked where the topic ends; after three times the reading is over.
    patience_s
        How long nothing may come, in seconds, where something has to: a broker may read it from a slow store, and tries again after 15 s.

    """

    addresses: tuple[BrokerAddress, ...]
    token: str | None = field(default=None, repr=False)
    tls: ssl.SSLContext | None = None
    has_certificate: bool = False
    silence_s: float = 3.0
    patience_s: float = 45.0

    @classmethod
    def at(
        cls,
        url: str,
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
        *,
        has_certificate: bool = False,
        silence_s: float = 3.0,
        patience_s: float = 45.0,
    ) -> "BrokerService":
        """Return the service of ``pulsar://host:6650,host:6650`` or ``pulsar+ssl://…``; raises `InvalidOptionError` for what is none."""
        return cls(parse_addresses(url), token, tls, has_certificate, silence_s, patience_s)

    def context_of(self, address: BrokerAddress) -> ssl.SSLContext | None:
        """Return TLS for an address; None without."""
        if not address.has_tls:
            return None
        return ssl.create_default_context() if self.tls is None else self.tls

    def is_enough(self, looks: int, *, is_due: bool) -> bool:
        """Whether nothing is waited for any longer after so many times `silence_s`; ``is_due`` is whether something has to come."""
        return looks >= _MOST_LOOKS and (not is_due or looks * self.silence_s >= self.patience_s)


def parse_addresses(url: str) -> tuple[BrokerAddress, ...]:
    """Return the addresses in a URL of brokers, of which there may be several with a comma between; raises `InvalidOptionError`."""
    scheme, separator, rest = url.strip().partition("://")
    rest = rest.removesuffix("/")
    if not separator or scheme not in _PORTS or not rest or not rest.isascii() or "@" in rest:
        raise InvalidOptionError(_EXPECTED, key=printable(url))
    return tuple(_parsed(one, scheme, url) for one in rest.split(","))


def _parsed(authority: str, scheme: str, url: str) -> BrokerAddress:
    try:
        parts = urlsplit(f"//{authority}")
        host, port = parts.hostname, _PORTS[scheme] if parts.port is None else parts.port
    except ValueError as error:
        raise InvalidOptionError(f"{_EXPECTED}: {error}", key=printable(url)) from error
    if (
        not host
        or port == 0
        or parts.path
        or parts.query
        or parts.fragment
        or not authority.isprintable()
        or " " in authority
    ):
        raise InvalidOptionError(_EXPECTED, key=printable(url))
    return BrokerAddress(host, port, scheme == "pulsar+ssl")
