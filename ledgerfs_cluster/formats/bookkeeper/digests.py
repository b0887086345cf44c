"""The digest of each stored entry, as in a ledger's metadata. Apart from the kernels, since listings need it, too."""

import builtins
import hashlib
from dataclasses import dataclass, field

from ledgerfs.formats.ledger_metadata import DigestType

_BYTES = {DigestType.CRC32: 8, DigestType.HMAC: 20, DigestType.CRC32C: 4, DigestType.DUMMY: 0}


@dataclass(frozen=True, slots=True)
class Digest:
    """Type and key of the digest of a ledger's entries.

    Attributes
    ----------
    kind
        The type of the digest.
    password
        The ledger's password, which only HMAC uses; Pulsar's is empty.

    """

    kind: DigestType = DigestType.CRC32C
    password: builtins.bytes = field(default=b"", repr=False)

    @property
    def bytes(self) -> int:
        """Bytes of the digest in each stored entry."""
        return _BYTES[self.kind]

    @property
    def key(self) -> builtins.bytes:
        """The key of HMAC-SHA1."""
        return hashlib.sha1(b"mac" + self.password, usedforsecurity=False).digest()
