"""Encryption as Pulsar's clients do it, which shares no code with the module that decrypts."""

import hashlib
import hmac
import struct

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ledgerfs.messages.decode.decryption import EncryptedDataKey
from tests.support.entries import frame, metadata

IV = bytes(range(12))


def pem_of(key, form=serialization.PrivateFormat.PKCS8, secret=None):
    protection = serialization.BestAvailableEncryption(secret) if secret else serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, form, protection)


def kdf2(shared, size):
    blocks = (hashlib.sha1(shared + struct.pack(">I", i)).digest() for i in range(1, 2 + size // 20))
    return b"".join(blocks)[:size]


def wrap_ecies(public, data_key):
    mine = ec.generate_private_key(public.curve)
    point = mine.public_key().public_bytes(serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)
    stream = kdf2(point + mine.exchange(ec.ECDH(), public), 16 + len(data_key))
    encrypted = bytes(a ^ b for a, b in zip(data_key, stream[16:], strict=True))
    return point + encrypted + hmac.digest(stream[:16], encrypted + bytes(8), "sha1")


def wrap(key, data_key):
    public = key.public_key()
    if isinstance(public, ec.EllipticCurvePublicKey):
        return wrap_ecies(public, data_key)
    return public.encrypt(data_key, padding.OAEP(padding.MGF1(hashes.SHA1()), hashes.SHA1(), None))


def encrypt(text, *readers, data_key=bytes(range(32))):
    """Return the arguments of `Decryptor.decrypt` for a message to ``readers``, pairs of a name and a key."""
    wrapped = [EncryptedDataKey(name, wrap(key, data_key)) for name, key in readers]
    return wrapped, IV, AESGCM(data_key).encrypt(IV, text, None)


def encrypted_entry(payload, *readers, **fields):
    """Return an entry whose payload is encrypted for ``readers``, pairs of a name and a key."""
    wrapped, iv, ciphertext = encrypt(payload, *readers)
    meta = metadata(encryption_iv=iv, **fields)
    for key in wrapped:
        meta.encryption_key.add(name=key.name.encode(), wrapped=key.value)
    return frame(meta, ciphertext)
