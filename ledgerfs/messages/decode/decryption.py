"""Decryption of end-to-end encrypted messages, as Pulsar's Java client (``MessageCryptoBc``) writes them.

A producer draws an AES data key, wraps it with the public key of every reader, and puts the wrapped keys and an initialization vector in
the metadata of each message. The payload is AES-GCM, its tag at the end. RSA keys wrap by OAEP with SHA-1, EC keys by BouncyCastle's
``ECIES``; the C++ and Go clients support RSA only, and wrap alike.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import TypeAlias

from cryptography.exceptions import InvalidSignature, InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.hmac import HMAC
from cryptography.hazmat.primitives.kdf.x963kdf import X963KDF
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from ledgerfs.errors import DecryptionError, EncryptedMessageError
from ledgerfs.messages.decode.payloads import no_key_for

__all__ = ["DecryptionError", "Decryptor", "EncryptedDataKey", "PrivateKeys"]

_PrivateKey: TypeAlias = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey

_IV_SIZE = 12
_DATA_KEY_SIZES = frozenset((16, 24, 32))
_CACHED_DATA_KEYS = 1024
"""A producer keeps its data key for hours, so this is enough for as many producers, or for months of one."""

_SHA1 = SHA1()  # noqa: S303 - Pulsar's clients wrap with it
_OAEP = padding.OAEP(padding.MGF1(_SHA1), _SHA1, label=None)

_EXPLICIT = (
    "the private key {name} has explicit parameters of its curve, as keys made by Pulsar's guide do (-param_enc explicit); "
    "the installed cryptography cannot read that: install cryptography 47 or newer, or convert the key: openssl ec -in … "
    "-param_enc named_curve -out …"
)

_ECIES_MAC_KEY_SIZE = 16
_ECIES_MAC_SIZE = 20
_ECIES_LENGTH_TAG = bytes(8)
"""The size in bits of the encoding parameter, which Pulsar does not use."""


@dataclass(frozen=True, slots=True)
class EncryptedDataKey:
    """One of a message's ``encryption_keys``: the data key, wrapped with the public key of this name."""

    name: str
    value: bytes = field(repr=False)


class PrivateKeys:
    """The private keys of a reader by their names.

    Pickles contain the keys, so that they reach the workers of Spark; ``repr`` and error texts contain the names only.
    """

    __slots__ = ("_keys", "_pem")

    def __init__(self, pem: Mapping[str, bytes]) -> None:
        self._pem = dict(pem)
        self._keys = {name: _load(name, text) for name, text in self._pem.items()}

    @classmethod
    def of(cls, keys: Mapping[str, str | bytes | os.PathLike[str]]) -> "PrivateKeys":
        """Load RSA or EC keys by the producers' names for them, each as PEM (``str`` or ``bytes``) or as the ``Path`` of a PEM file.

        Raises
        ------
        DecryptionError
            A file cannot be read, or is not an RSA or EC private key without a password.

        """
        return cls({name: _pem_of(name, source) for name, source in keys.items()})

    @property
    def names(self) -> list[str]:
        """The names, sorted."""
        return sorted(self._keys)

    def __contains__(self, name: object) -> bool:
        return name in self._keys

    def unwrap(self, wrapped: EncryptedDataKey) -> bytes | None:
        """Return the data key, or None if the private key of that name does not match; raises ``KeyError`` without such a key."""
        key = self._keys[wrapped.name]
        if isinstance(key, rsa.RSAPrivateKey):
            return _unwrap_oaep(key, wrapped.value)
        return _unwrap_ecies(key, wrapped.value)

    def __repr__(self) -> str:
        return f"PrivateKeys({', '.join(map(repr, self.names))})"

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self._pem,))


class Decryptor:
    """Decrypts payloads, and caches unwrapped data keys. Threads may share one.

    Parameters
    ----------
    keys
        The private keys to use.

    """

    __slots__ = ("_cipher_of", "_keys")

    def __init__(self, keys: PrivateKeys) -> None:
        self._keys = keys
        # An LRU cache of C code: its operations are atomic, those of cachetools are not.
        cached = lru_cache(_CACHED_DATA_KEYS)
        self._cipher_of: Callable[[EncryptedDataKey], AESGCM | None] = cached(partial(_cipher, keys))

    def decrypt(
        self, wrapped: Sequence[EncryptedDataKey], initialization_vector: bytes, ciphertext: bytes | memoryview
    ) -> bytes:
        """Return the decrypted payload, still compressed: of one message, a whole batch, or one chunk.

        Parameters
        ----------
        wrapped
            The message's ``encryption_keys``. As in Pulsar, one matching key is enough.
        initialization_vector
            The message's ``encryption_param``.
        ciphertext
            The message's payload.

        Raises
        ------
        EncryptedMessageError
            No private key of these names is given.
        DecryptionError
            No given key matches, or the message was changed.

        """
        if len(initialization_vector) != _IV_SIZE:
            raise DecryptionError(
                f"the message's initialization vector has {len(initialization_vector)} bytes instead of {_IV_SIZE}"
            )
        usable = [key for key in wrapped if key.name in self._keys]
        if not usable:
            raise EncryptedMessageError(no_key_for((key.name for key in wrapped), self._keys.names))
        ciphers = [cipher for key in usable if (cipher := self._cipher_of(key)) is not None]
        if not ciphers:
            raise DecryptionError(
                f"the private key given as {_names(usable)} does not fit: the message was encrypted for another key of this name"
            )
        for cipher in ciphers:
            with suppress(InvalidTag):
                return cipher.decrypt(initialization_vector, ciphertext, None)
        raise DecryptionError("the message's tag does not verify: it was damaged or changed after encryption")

    def __repr__(self) -> str:
        return f"Decryptor({self._keys!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self._keys,))


def _cipher(keys: PrivateKeys, wrapped: EncryptedDataKey) -> AESGCM | None:
    data_key = keys.unwrap(wrapped)
    return None if data_key is None else AESGCM(data_key)


def _names(wrapped: Sequence[EncryptedDataKey]) -> str:
    return " or ".join(dict.fromkeys(repr(key.name) for key in wrapped))


def _unwrap_oaep(key: rsa.RSAPrivateKey, value: bytes) -> bytes | None:
    """``RSA/NONE/OAEPWithSHA1AndMGF1Padding``."""
    try:
        unwrapped = key.decrypt(value, _OAEP)
    except ValueError:
        return None
    return unwrapped if len(unwrapped) in _DATA_KEY_SIZES else None


def _unwrap_ecies(key: ec.EllipticCurvePrivateKey, value: bytes) -> bytes | None:
    """``ECIES`` of BouncyCastle with ``IESParameterSpec(null, null, 128)``.

    ``ephemeral public key, an uncompressed point | data key xor stream | HMAC-SHA-1``. MAC key (128 bits) and stream come, in this order,
    from KDF2 with SHA-1 (ANSI X9.63's) over the point and the ECDH secret, without further parameters. The MAC covers the encrypted data
    key and an 8-byte zero. BouncyCastle before 1.53 had a 4-byte zero there, but Pulsar began with 1.55.
    """
    point_size = 1 + 2 * ((key.curve.key_size + 7) // 8)
    point, encrypted, mac = value[:point_size], value[point_size:-_ECIES_MAC_SIZE], value[-_ECIES_MAC_SIZE:]
    if len(encrypted) not in _DATA_KEY_SIZES:
        return None
    try:
        secret = key.exchange(ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(key.curve, point))
        stream = X963KDF(_SHA1, _ECIES_MAC_KEY_SIZE + len(encrypted), sharedinfo=None).derive(point + secret)
        check = HMAC(stream[:_ECIES_MAC_KEY_SIZE], _SHA1)
        check.update(encrypted + _ECIES_LENGTH_TAG)
        check.verify(mac)
    except (ValueError, InvalidSignature):
        return None
    return bytes(a ^ b for a, b in zip(encrypted, stream[_ECIES_MAC_KEY_SIZE:], strict=True))


def _pem_of(name: str, source: str | bytes | os.PathLike[str]) -> bytes:
    if isinstance(source, str):
        return source.encode(errors="replace")
    if isinstance(source, bytes):
        return source
    path = Path(source)
    try:
        return path.read_bytes()
    except OSError as error:
        raise DecryptionError(f"the private key {name!r} cannot be read: {error.strerror}", key=str(path)) from error


def _load(name: str, pem: bytes) -> _PrivateKey:
    """Parse a key. The parser's own messages quote the key, so errors leave them out."""
    try:
        key = load_pem_private_key(pem, password=None)
    except TypeError:
        reason = f"the private key {name!r} is protected by a password; remove it (openssl pkey -in … -out …)"
    except (ValueError, UnsupportedAlgorithm) as error:
        if "explicit parameters are unsupported" in str(error):
            raise DecryptionError(_EXPLICIT.format(name=repr(name))) from None
        reason = f"the key given as {name!r} is not a private key in PEM; give the path of a file as a Path"
    else:
        if isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey):
            return key
        reason = f"the private key {name!r} is neither RSA nor EC, the kinds that Pulsar encrypts for"
    raise DecryptionError(reason)
