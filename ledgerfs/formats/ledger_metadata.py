"""The BookKeeper ledger metadata that Pulsar embeds in an index object (``docs/formats/bookkeeper.md``).

No other part of the bucket names the topic, so a catalog needs neither ZooKeeper nor user metadata.
"""

from dataclasses import dataclass, replace
from enum import IntEnum

from google.protobuf.message import DecodeError

from ledgerfs.errors import CorruptMetadataError
from ledgerfs.formats.origin import ORIGIN_KEY, Origin, build_origin, parse_origin
from ledgerfs.formats.proto.ledger_metadata_pb2 import LedgerMetadataRecord
from ledgerfs.formats.record_header import records_size

MANAGED_LEDGER_KEY = "pulsar/managed-ledger"
# File sizes are 64-bit, so records of more bytes cannot exist.
_MAX_FILE_BYTES = 2**63 - 1
_REQUIRED = ("write_quorum", "ensemble_size", "length", "last_entry", "state")


class LedgerState(IntEnum):
    """State of the ledger when it was offloaded; Pulsar offloads closed ones only."""

    OPEN = 1
    IN_RECOVERY = 2
    CLOSED = 3


class DigestType(IntEnum):
    """BookKeeper's digest of each entry; the digest itself is not offloaded."""

    CRC32 = 1
    HMAC = 2
    CRC32C = 3
    DUMMY = 4


OWN_KEYS_BEGIN = "ledgerfs/"
"""Prefix of the keys that ledgerfs writes to the custom metadata."""

MOVED_KEY = "ledgerfs/moved"
"""Key in the custom metadata; brokers keep it unchanged."""


@dataclass(frozen=True, slots=True)
class Ensemble:
    """The bookies that held the entries from ``first_entry`` on."""

    first_entry: int
    bookies: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LedgerMetadata:
    """BookKeeper's metadata of a ledger.

    Attributes
    ----------
    length
        Bytes of all entries together, without record headers.
    last_entry
        Id of the last entry; entries are 0 … last_entry.
    created_ms
        Creation of the ledger, ms since 1970 UTC; None where BookKeeper did not store it.
    custom
        Custom metadata in the order of the bytes (Java's map order, so arbitrary).

    """

    length: int
    last_entry: int
    ensemble_size: int
    write_quorum: int
    ack_quorum: int | None
    state: int
    digest_type: int | None
    created_ms: int | None
    ensembles: tuple[Ensemble, ...] = ()
    custom: tuple[tuple[str, bytes], ...] = ()

    @property
    def entries(self) -> int:
        """Number of entries."""
        return self.last_entry + 1

    @property
    def records_size(self) -> int:
        """Bytes of all records (entries with their 12-byte headers): the size of the ledger's ``.entries`` file."""
        return records_size(self.length, self.last_entry)

    @property
    def is_in_place(self) -> bool:
        """Whether a broker wrote the ledger for this topic, with this id, so that it was created between its neighbours.

        Ledgers that ledgerfs wrote from rows, or from records without metadata, have no bookies. Copies under another topic or id are
        marked (`moved`).
        """
        return self._custom(MOVED_KEY) is None and any(one.bookies for one in self.ensembles)

    def moved(self) -> "LedgerMetadata":
        """Return the metadata for a copy of the ledger under another topic or id."""
        return (
            self if self._custom(MOVED_KEY) is not None else replace(self, custom=(*self.custom, (MOVED_KEY, b"true")))
        )

    @property
    def origin(self) -> Origin | None:
        """The ledger that this one was made from (`made_of`); None without one, and in a copy for another topic."""
        reported = self._custom(ORIGIN_KEY)
        return None if reported is None else parse_origin(reported, self.managed_ledger)

    def made_of(self, origin: Origin) -> "LedgerMetadata":
        """Return the metadata for a ledger that contains the messages of another one of its topic."""
        kept = tuple((key, value) for key, value in self.custom if key != ORIGIN_KEY)
        return replace(self, custom=(*kept, (ORIGIN_KEY, build_origin(origin, self.managed_ledger))))

    @property
    def managed_ledger(self) -> str | None:
        """Name of the managed ledger (``tenant/ns/persistent/topic``); None in objects from before Pulsar 2.4."""
        name = self._custom(MANAGED_LEDGER_KEY)
        return None if name is None else name.decode("utf-8", "replace") or None

    def _custom(self, wanted: str) -> bytes | None:
        # Listings call this for every ledger: a loop is quicker than a dictionary.
        for key, value in self.custom:
            if key == wanted:
                return value
        return None


def parse_ledger_metadata(data: bytes, *, key: str | None = None, offset: int = 0) -> LedgerMetadata:
    """Parse a bare ``LedgerMetadataFormat`` message.

    Raises `CorruptMetadataError`, naming ``key`` and ``offset``, when the bytes are not such a message, lack a required field, or claim
    no entries, a negative length, or more bytes than 63 bits can count.
    """
    try:
        record = LedgerMetadataRecord.FromString(data)
    except DecodeError as error:
        raise CorruptMetadataError("ledger metadata is not a protobuf message", key=key, offset=offset) from error
    missing = [field for field in _REQUIRED if not record.HasField(field)]
    if missing:
        raise CorruptMetadataError(f"ledger metadata lacks its {missing[0]}", key=key, offset=offset)
    length, last_entry = record.length, record.last_entry
    if length < 0 or last_entry < 0 or records_size(length, last_entry) > _MAX_FILE_BYTES:
        raise CorruptMetadataError(
            f"ledger metadata has the impossible length {length} and last entry {last_entry}",
            key=key,
            offset=offset,
        )
    return LedgerMetadata(
        length=length,
        last_entry=last_entry,
        ensemble_size=record.ensemble_size,
        write_quorum=record.write_quorum,
        ack_quorum=record.ack_quorum if record.HasField("ack_quorum") else None,
        state=record.state,
        digest_type=record.digest_type if record.HasField("digest_type") else None,
        created_ms=record.created_ms if record.created_ms > 0 else None,
        # Lists are built in half the time of generators, for every ledger of a listing.
        ensembles=tuple([Ensemble(one.first_entry, tuple(map(_text, one.bookie))) for one in record.ensemble]),
        custom=tuple([(_text(field.key), field.value) for field in record.custom]),
    )


def build_ledger_metadata(metadata: LedgerMetadata) -> bytes:
    """Serialise as Pulsar does: the same fields, an unknown creation time as -1, custom metadata in the given order."""
    record = LedgerMetadataRecord(
        write_quorum=metadata.write_quorum,
        ensemble_size=metadata.ensemble_size,
        length=metadata.length,
        last_entry=metadata.last_entry,
        state=metadata.state,
        ensemble=[
            LedgerMetadataRecord.Ensemble(first_entry=e.first_entry, bookie=[b.encode() for b in e.bookies])
            for e in metadata.ensembles
        ],
        digest_type=metadata.digest_type,
        ack_quorum=metadata.ack_quorum,
        created_ms=-1 if metadata.created_ms is None else metadata.created_ms,
        custom=[LedgerMetadataRecord.CustomField(key=k.encode(), value=v) for k, v in metadata.custom],
    )
    return record.SerializeToString(deterministic=True)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
