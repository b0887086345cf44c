"""Uuids of settled copies of ledgers, by which a name alone tells whose copy it is (``docs/formats/settled-copies.md``).

They depend on the source and on what became of its messages alone, so that whoever makes the same copy again finds it. The first 48 bits
are those of a digest of the source's uuid: a data object that lost its index, or never had one, is known as a settled copy of a ledger in
the same bucket, also where a store keeps no user metadata.
"""

from hashlib import blake2b
from uuid import UUID

_FRONT_BYTES = 6


def settled_uuid(source: str, told: bytes) -> str:
    """Return the uuid of the settled copy of a ledger with this uuid; ``told`` stands for what became of its messages."""
    digits = _front(source) + blake2b(told, digest_size=16 - _FRONT_BYTES, key=source.encode()).digest()
    return str(UUID(bytes=digits, version=5))


def is_settled_copy_of(uuid: str, source: str) -> bool:
    """Whether a ledger of this uuid is a settled copy of the ledger with the same id and the uuid ``source``."""
    return uuid[:13].replace("-", "") == _front(source).hex()


def _front(source: str) -> bytes:
    return blake2b(b"settled " + source.encode(), digest_size=_FRONT_BYTES).digest()
