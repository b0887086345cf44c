"""Uuids of the ledgers that end lost clusters, by which a name alone tells what they are (``docs/formats/settled-copies.md``).

Such a ledger stands in a topic of a bucket between what a lost cluster wrote and what the cluster writes in which the topic was restored.
Its uuid depends on its id and its topic alone, so that two recoveries write the same one; the first 48 bits are those of a digest of the
id. Whatever copies its objects, or makes its index anew, keeps what it says.
"""

from hashlib import blake2b
from uuid import UUID

import numpy as np
import numpy.typing as npt

from ledgerfs.formats.array_types import Int64, Mask

_FRONT_BYTES = 6
_VERSION = 5
"""Of these uuids; brokers' are random ones (4)."""
_VERSION_BITS, _FRONT_BITS = 12, 16
"""Where the version, and the first 48 bits, begin in the high half of a uuid."""


def end_uuid(ledger_id: int, managed_ledger: str) -> str:
    """Return the uuid of the ledger of this id that ends a lost cluster in a topic."""
    digits = (
        front_of_end(ledger_id).to_bytes(_FRONT_BYTES, "big")
        + blake2b(managed_ledger.encode(), digest_size=16 - _FRONT_BYTES).digest()
    )
    return str(UUID(bytes=digits, version=_VERSION))


def is_end_uuid(uuid: str, ledger_id: int) -> bool:
    """Whether a ledger of this uuid and id ends a lost cluster."""
    return int(uuid[:13].replace("-", ""), 16) == front_of_end(ledger_id)


def are_ends(uuid_high: npt.NDArray[np.uint64], ledger_id: Int64) -> Mask:
    """Return `is_end_uuid` of many, by the high halves of their uuids; shape (ledgers,)."""
    # Of a million ledgers of brokers hardly one is looked at by itself.
    found: Mask = uuid_high >> _VERSION_BITS & 0xF == _VERSION
    some = np.flatnonzero(found)
    pairs = zip(uuid_high[some].tolist(), ledger_id[some].tolist(), strict=True)
    found[some] = [one >= 0 and high >> _FRONT_BITS == front_of_end(one) for high, one in pairs]
    return found


def front_of_end(ledger_id: int) -> int:
    """Return the first 48 bits of the uuid of a ledger of this id that ends a cluster."""
    return int.from_bytes(blake2b(b"end of a cluster %d" % ledger_id, digest_size=_FRONT_BYTES).digest(), "big")
