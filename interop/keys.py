"""The key pair of the encrypted topics."""

from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

KEY_NAME = "interop.key"


@dataclass(frozen=True)
class KeyPair:
    """Two PEM files, as Pulsar's clients want them."""

    public: Path
    private: Path


def make_key_pair(folder: Path) -> KeyPair:
    """Write a new RSA pair into ``folder``."""
    folder.mkdir()
    pair = KeyPair(folder / "public.pem", folder / "private.pem")
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pair.private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()))
    pair.public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return pair
