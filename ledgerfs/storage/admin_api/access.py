"""How a broker is reached: its address, a token, certificates."""

import ssl
from pathlib import Path
from urllib.parse import urlsplit

from ledgerfs.display import printable
from ledgerfs.errors import InvalidOptionError
from ledgerfs.storage.admin_api.answer import OTHER_PROTOCOL


def tls_context(
    ca: Path | None = None, certificate: Path | None = None, key: Path | None = None
) -> ssl.SSLContext | None:
    """Return TLS with files in PEM: who signed the broker's certificate, and the certificate and key of this client; None without any.

    Raises `InvalidOptionError`, which names the file.
    """
    if ca is certificate is key is None:
        return None
    if key is not None and certificate is None:
        raise InvalidOptionError("a key needs the certificate that it is of", key=str(key))
    try:
        context = ssl.create_default_context(cafile=None if ca is None else str(ca))
    except OSError as error:
        raise InvalidOptionError(f"cannot be used as certificates of authorities: {error}", key=str(ca)) from error
    if certificate is not None:
        try:
            context.load_cert_chain(certificate, key, password=_no_password)
        except (OSError, ValueError) as error:
            raise InvalidOptionError(f"cannot be used as certificate and key: {error}", key=str(certificate)) from error
    return context


def _no_password() -> str:
    """Refuse: OpenSSL would ask the terminal."""
    raise ValueError("the key is encrypted with a password, which is not supported")


def checked_address(address: str) -> str:
    """Return the address of a web service without a slash at its end; raises `InvalidOptionError` for what is none."""
    try:
        parts = urlsplit(address)
        has_host = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError as error:
        raise InvalidOptionError(f"no address of a broker: {error}", key="broker") from error
    if parts.username is not None or parts.password is not None:
        raise InvalidOptionError("an address has no login in it; a token is given with --token-file", key="broker")
    if parts.scheme not in {"http", "https"} or not has_host or parts.query or parts.fragment or "," in parts.netloc:
        raise InvalidOptionError(f"expected the address of one broker; {OTHER_PROTOCOL}", key=address)
    if not (address.isascii() and address.isprintable()) or " " in address:
        raise InvalidOptionError("an address has only ASCII characters", key=printable(address))
    return address.rstrip("/")


def checked_token(token: str) -> str:
    """Return a token as it is sent; raises `InvalidOptionError`, which does not show it."""
    token = token.strip().removeprefix("token:")
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidOptionError("the token is empty, or has characters that no token has", key="token")
    return token
