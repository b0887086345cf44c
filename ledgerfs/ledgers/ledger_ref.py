"""One ledger of a bucket, as far as the catalog tells."""

from dataclasses import dataclass
from enum import IntEnum

from ledgerfs.display import printable
from ledgerfs.errors import CorruptLedgerError
from ledgerfs.formats.record_header import records_size
from ledgerfs.formats.topic_names import topic_of
from ledgerfs.storage.objects import ObjectStat


class CatalogState(IntEnum):
    """What a catalog can tell of a ledger without reading its entries."""

    SOUND = 0
    """All that it tells of itself agrees."""
    DAMAGED = 1
    """Something contradicts: entries are missing or unreadable."""
    LOST = 2
    """Something tells of it, and its bytes are gone."""
    GROWING = 3
    """It is not closed: more entries may come."""


@dataclass(frozen=True, slots=True)
class LedgerRef:
    """One ledger of a bucket.

    Attributes
    ----------
    dialect
        Number of the dialect that it lies there in (`ledgerfs.ledgers.dialects_known`).
    uuid
        Of this copy of it: that of the offload attempt.
    managed_ledger
        Name of the managed ledger; None where nothing in the bucket tells it.
    copy
        0 for the copy to read; others are further uploads of the same ledger.
    first_entry, last_entry
        Ids of its entries.
    length
        Bytes of all entries; -1 where nothing tells.
    stored, expected
        Bytes that they take in the store, and that the ledger itself says they take; -1 for bytes that are gone, or not told.
    cuts
        At how many entries reading can begin at little cost (`LedgerReader.cuts`).
    created_ms
        Creation of the ledger in BookKeeper, ms since 1970 UTC, or None.
    changed_ms
        When the ledger was complete in the bucket; ms since 1970 UTC.
    is_ordered
        Whether a broker wrote it, so that its entries are nearly in the order of their publish times. What was imported has any order.
    objects
        What it lies in, each with its role; the first one has the entries.

    """

    dialect: int
    ledger_id: int
    uuid: str
    managed_ledger: str | None
    copy: int
    first_entry: int
    last_entry: int
    length: int
    stored: int
    expected: int
    cuts: int
    created_ms: int | None
    changed_ms: int
    state: CatalogState
    is_ordered: bool
    objects: tuple[tuple[str, ObjectStat], ...]

    def __repr__(self) -> str:
        what = f"ledger {self.ledger_id} of {printable(self.topic)}, copy {self.copy}, {self.uuid}"
        size = f", {self.length:,} bytes" if self.length >= 0 else ""
        return f"<{what}: {self.entries:,} entries{size}{'' if self.is_sound else f', {self.state.name.lower()}'}>"

    @property
    def topic(self) -> str:
        """Topic name as users know it."""
        return topic_of(self.managed_ledger)

    @property
    def is_sound(self) -> bool:
        """Whether all that is told of it agrees: false means that entries are missing or unreadable."""
        return self.state is CatalogState.SOUND

    @property
    def entries(self) -> int:
        """Number of entries."""
        return self.last_entry - self.first_entry + 1

    @property
    def records_size(self) -> int:
        """Exact size of the ``.entries`` file, bytes."""
        return records_size(self.length, self.entries - 1)

    @property
    def uploaded_ms(self) -> int:
        """The same as ``changed_ms``."""
        return self.changed_ms

    @property
    def key(self) -> str:
        """What errors name: the object that has the entries, else the ledger's id."""
        return self.objects[0][1].key if self.objects else f"ledger {self.ledger_id}"

    @property
    def version(self) -> str:
        """What changes whenever anything does that the ledger is read from."""
        return " ".join((self.uuid, *(f"{stat.size}/{stat.modified_ms}/{stat.version}" for _, stat in self.objects)))

    def object(self, role: str) -> ObjectStat:
        """Return one of its objects by its role; raises `CorruptLedgerError` for one without."""
        for name, stat in self.objects:
            if name == role:
                return stat
        raise CorruptLedgerError(f"the ledger has no {role} object", key=self.key)

    def agrees_with(self, other: "LedgerRef") -> bool:
        """Whether two copies of one ledger claim the same entries, bytes and creation, where both tell that."""
        created = {self.created_ms, other.created_ms} - {None}
        return (self.last_entry, self.length) == (other.last_entry, other.length) and len(created) <= 1
