"""Uuids of the ledgers that end lost clusters, by which a name alone tells what they are (``docs/formats/settled-copies.md``).

Such a ledger stands in a topic of a bucket between what a lost cluster wrote and what the cluster writes in which the topic was restored.
Its uuid depends on its id and its topic alone, so that two recoveries write the same one; the first 48 bits are those of a digest of the
id. Whatever copies its objects, or makes its index anew, keeps what it says.
"""

from hashlib import blake2b
from uuid import UUID

_FRONT_BYTES = 6
END_VERSION = 5
"""Version of these uuids; brokers' are random ones (4)."""


def end_uuid(ledger_id: int, managed_ledger: str) -> str:
    """Return the uuid of the ledger of this id that ends a lost cluster in a topic."""
    digits = (
        front_of_end(ledger_id).to_bytes(_FRONT_BYTES, "big")
        + blake2b(managed_ledger.encode(), digest_size=16 - _FRONT_BYTES).digest()
    )
    return str(UUID(bytes=digits, version=END_VERSION))


def is_end_uuid(uuid: str, ledger_id: int) -> bool:
    """Whether a ledger of this uuid and id ends a lost cluster."""
    return int(uuid[:13].replace("-", ""), 16) == front_of_end(ledger_id)


def front_of_end(ledger_id: int) -> int:
    """Return the first 48 bits of the uuid of a ledger of this id that ends a cluster."""
    return int.from_bytes(blake2b(b"end of a cluster %d" % ledger_id, digest_size=_FRONT_BYTES).digest(), "big")
