"""A ledger's node in ZooKeeper: its ensembles, the digest of its entries, and its end (``docs/formats/bookkeeper.md``).

After a line with the version of the format it is Protobuf's text (2: BookKeeper before 4.9), or the message that index objects embed, after
its length (3). Version 1 is older than Pulsar. The node of an open ledger does not contain its end.
"""

import re
from bisect import bisect_right
from collections.abc import Collection
from dataclasses import dataclass

from google.protobuf import text_format
from google.protobuf.message import DecodeError

from ledgerfs.errors import CorruptMetadataError, EntryRangeError
from ledgerfs.formats.ledger_metadata import (
    MANAGED_LEDGER_KEY,
    DigestType,
    Ensemble,
    LedgerMetadata,
    LedgerState,
)
from ledgerfs.formats.proto.ledger_metadata_pb2 import LedgerMetadataRecord
from ledgerfs.formats.record_header import records_size
from ledgerfs_cluster.formats.bookkeeper.digests import Digest
from ledgerfs_cluster.formats.bookkeeper.ledger_paths import is_folder_of_ledgers, ledger_id_at, ledger_path
from ledgerfs_cluster.formats.proto.metadata_pb2 import LedgerText

__all__ = [
    "Ensemble",
    "LedgerNode",
    "LedgerState",
    "is_folder_of_ledgers",
    "ledger_id_at",
    "ledger_path",
    "parse_ledger_node",
]

_VARINT = re.compile(rb"[\x80-\xff]{0,4}[\x00-\x7f]", re.DOTALL)
_HEADER = re.compile(rb"BookieMetadataFormatVersion\t(\d{1,9})\n")
_OWNER_KEYS = (MANAGED_LEDGER_KEY, "pulsar/schemaId", "pulsar/compactedTopic", "pulsar/delayedIndexTopic")
_MAX_FILE_BYTES = 2**63 - 1
_REQUIRED = ("write_quorum", "ensemble_size", "length", "state")
_STATES = {int(state): state for state in LedgerState}
_DIGESTS = {int(kind): kind for kind in DigestType}


@dataclass(frozen=True, slots=True)
class LedgerNode:
    """ZooKeeper's metadata of a ledger.

    Attributes
    ----------
    ledger_id
        From the path; the node does not contain it.
    length
        Bytes of all payloads; 0 if the ledger is not closed.
    last_entry
        Id of the last entry; -1 if the ledger is empty or not closed.
    ensembles
        The bookies from an entry on, ascending; the first begins at entry 0.
    custom
        Custom metadata in the order of the bytes.
    created_ms
        Creation of the ledger, ms since 1970 UTC; None if BookKeeper did not store it, as for Pulsar's: use that of the node.

    """

    ledger_id: int
    state: LedgerState
    ensemble_size: int
    write_quorum: int
    ack_quorum: int
    length: int
    last_entry: int
    digest: Digest
    ensembles: tuple[Ensemble, ...]
    custom: tuple[tuple[str, bytes], ...] = ()
    created_ms: int | None = None

    @property
    def is_closed(self) -> bool:
        """Whether the ledger has an end that no longer changes."""
        return self.state == LedgerState.CLOSED

    @property
    def managed_ledger(self) -> str | None:
        """Name of the managed ledger (``tenant/ns/persistent/topic``) whose entries, or whose cursor's states, the ledger contains."""
        return self.reported(MANAGED_LEDGER_KEY)

    @property
    def owner(self) -> str | None:
        """The owner by the component that created the ledger: a managed ledger, or the topic of a schema or of delayed messages."""
        return next(filter(None, map(self.reported, _OWNER_KEYS)), None)

    @property
    def component(self) -> str | None:
        """The part of the application that created the ledger, such as ``managed-ledger``, ``schema`` and ``compacted-ledger``."""
        return self.reported("component")

    @property
    def application(self) -> str | None:
        """The application that created the ledger: ``pulsar``."""
        return self.reported("application")

    def reported(self, key: str) -> str | None:
        """Return a text of the custom metadata; None if it is missing or empty."""
        for found, value in self.custom:
            if found == key:
                return value.decode("utf-8", "replace") or None
        return None

    def ensemble_of(self, entry: int) -> Ensemble:
        """Return the ensemble that an entry was, or would be, written to; raises `EntryRangeError` for a negative one."""
        row = bisect_right(self.ensembles, entry, key=lambda one: one.first_entry)
        if not row:
            raise EntryRangeError(f"{entry} is not a valid entry id", key=f"ledger {self.ledger_id}")
        return self.ensembles[row - 1]

    def bookies_of(self, entry: int) -> tuple[str, ...]:
        """Return the write set of an entry, in the order of reads; raises `EntryRangeError`."""
        bookies = self.ensemble_of(entry).bookies
        return tuple([bookies[(entry + k) % len(bookies)] for k in range(self.write_quorum)])

    def is_covered_without(self, away: Collection[str]) -> bool:
        """Return whether each acknowledged entry of the last ensemble is on a bookie that is not ``away``.

        It is if fewer bookies of each write set are away than the ack quorum.
        """
        bookies = self.ensembles[-1].bookies
        absent = [bookie in away for bookie in bookies]
        sets = ([absent[(start + k) % len(bookies)] for k in range(self.write_quorum)] for start in range(len(bookies)))
        return all(sum(one) < self.ack_quorum for one in sets)

    def closed_at(self, last_entry: int, length: int) -> LedgerMetadata:
        """Return the metadata of the ledger with this end, as an index object contains it."""
        return LedgerMetadata(
            length=length,
            last_entry=last_entry,
            ensemble_size=self.ensemble_size,
            write_quorum=self.write_quorum,
            ack_quorum=self.ack_quorum,
            state=LedgerState.CLOSED,
            digest_type=self.digest.kind,
            created_ms=self.created_ms,
            ensembles=self.ensembles,
            custom=self.custom,
        )


def parse_ledger_node(data: bytes, ledger_id: int, *, key: str) -> LedgerNode:
    """Parse the bytes of a ledger's node, of any version; ``key`` is its path.

    Raises `CorruptMetadataError` with ``key`` for other bytes, and for an impossible ledger: quorums larger than its ensemble, ensembles of
    other sizes or not from entry 0 on, sizes that 63 bits cannot count.
    """
    header = _HEADER.match(data)
    if header is None:
        raise CorruptMetadataError(
            "the node is not ledger metadata: it does not begin with a version", key=key, offset=0
        )
    try:
        read = _VERSIONS.get(int(header[1]))
        if read is None:
            raise ValueError(f"the ledger metadata has an unknown version {int(header[1])}")
        return _node_of(read(data[header.end() :]), ledger_id)
    except ValueError as error:
        raise CorruptMetadataError(str(error), key=key, offset=header.end()) from error


def _read_message(data: bytes) -> LedgerMetadataRecord:
    """Parse version 3; raises `ValueError`."""
    head = _VARINT.match(data)
    if head is None:
        raise ValueError("the ledger metadata is cut off before its message")
    size = sum((byte & 0x7F) << (7 * i) for i, byte in enumerate(head[0]))
    if size != len(data) - head.end():
        raise ValueError(f"the ledger metadata should have {size} bytes, but the node has {len(data) - head.end()}")
    try:
        return LedgerMetadataRecord.FromString(data[head.end() :])
    except DecodeError as error:
        raise ValueError("the ledger metadata is not a valid protobuf message") from error


def _read_text(data: bytes) -> LedgerMetadataRecord:
    """Parse version 2; raises `ValueError`, also for unknown fields: none was ever added."""
    try:
        text = text_format.Parse(data, LedgerText())
    except text_format.ParseError as error:
        raise ValueError(f"the ledger metadata is not valid Protobuf text: {error}") from error
    return LedgerMetadataRecord.FromString(text.SerializeToString())


_VERSIONS = {2: _read_text, 3: _read_message}


def _node_of(record: LedgerMetadataRecord, ledger_id: int) -> LedgerNode:
    """Return the node of a record; raises `ValueError` for an impossible ledger."""
    missing = [field for field in _REQUIRED if not record.HasField(field)]
    if missing:
        raise ValueError(f"the ledger metadata lacks the field {missing[0]}")
    kind = record.digest_type if record.HasField("digest_type") else DigestType.CRC32
    if record.state not in _STATES or kind not in _DIGESTS:
        raise ValueError(f"the ledger metadata has an unknown state {record.state} or digest {kind}")
    is_closed = record.state == LedgerState.CLOSED
    length, last_entry = _ends_of(record) if is_closed else (0, -1)
    return LedgerNode(
        ledger_id=ledger_id,
        state=_STATES[record.state],
        ensemble_size=record.ensemble_size,
        write_quorum=record.write_quorum,
        ack_quorum=_ack_quorum_of(record),
        length=length,
        last_entry=last_entry,
        digest=Digest(_DIGESTS[kind], record.password),
        ensembles=_ensembles_of(record),
        # Lists are built in half the time of generators, for every ledger of a cluster.
        custom=tuple([(_text(field.key), field.value) for field in record.custom]),
        created_ms=record.created_ms if record.created_ms > 0 else None,
    )


def _ends_of(record: LedgerMetadataRecord) -> tuple[int, int]:
    """Return the length and the last entry of a closed ledger."""
    length, last_entry = record.length, record.last_entry if record.HasField("last_entry") else -1
    is_empty = last_entry == -1 and length == 0
    if not is_empty and (length < 0 or last_entry < 0 or records_size(length, last_entry) > _MAX_FILE_BYTES):
        raise ValueError(f"the ledger metadata has length {length} and last entry {last_entry}, which is impossible")
    return length, last_entry


def _ack_quorum_of(record: LedgerMetadataRecord) -> int:
    """Return the ack quorum; it defaults to the write quorum."""
    ack_quorum = record.ack_quorum if record.HasField("ack_quorum") else record.write_quorum
    if not 1 <= ack_quorum <= record.write_quorum <= record.ensemble_size:
        raise ValueError(
            f"the ledger metadata has impossible quorums: ack quorum {ack_quorum}, write quorum {record.write_quorum}, "
            f"ensemble size {record.ensemble_size}"
        )
    return ack_quorum


def _ensembles_of(record: LedgerMetadataRecord) -> tuple[Ensemble, ...]:
    """Return the ensembles, ascending, in any order in the bytes."""
    ensembles = [Ensemble(one.first_entry, tuple(map(_text, one.bookie))) for one in record.ensemble]
    ensembles.sort(key=lambda one: one.first_entry)
    firsts = {one.first_entry for one in ensembles}
    if not ensembles or ensembles[0].first_entry != 0 or len(firsts) < len(ensembles):
        raise ValueError("the ledger metadata has no ensemble for entry 0, or several ensembles from the same entry on")
    wrong = [one for one in ensembles if len(one.bookies) != record.ensemble_size]
    if wrong:
        raise ValueError(
            f"the ensemble from entry {wrong[0].first_entry} on has {len(wrong[0].bookies)} bookies "
            f"instead of {record.ensemble_size}"
        )
    return tuple(ensembles)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
