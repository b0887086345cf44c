"""One ledger of a bucket, as the catalog has it."""

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from ledgerfs.display import printable
from ledgerfs.errors import CorruptLedgerError
from ledgerfs.formats.origin import Origin
from ledgerfs.formats.record_header import records_size
from ledgerfs.formats.topic_names import topic_of
from ledgerfs.storage.objects import ObjectStat

if TYPE_CHECKING:
    from ledgerfs.formats.ledger_metadata import LedgerMetadata


class CatalogState(IntEnum):
    """State of a ledger that a catalog knows without reading its entries."""

    SOUND = 0
    """Index, sizes and metadata agree."""
    DAMAGED = 1
    """They contradict each other: entries are missing or unreadable."""
    LOST = 2
    """The bucket shows that there was such a ledger, but its bytes are gone."""


@dataclass(frozen=True, slots=True)
class LedgerRef:
    """One ledger of a bucket.

    Attributes
    ----------
    layout
        Number of the layout that it is stored in (`ledgerfs.catalog.layouts_known`).
    uuid
        Uuid of this copy: that of the offload attempt.
    managed_ledger
        Name of the managed ledger; None if nothing in the bucket names it.
    copy
        0 for the copy to read; others are further uploads of the same ledger.
    first_entry, last_entry
        Ids of its entries.
    length
        Bytes of all entries; -1 if unknown.
    stored, expected
        Bytes that they take in the store, and that they should take by the ledger's own metadata; -1 if lost, or unknown.
    cuts
        Number of entries at which reading can begin at little cost (`LedgerReader.cuts`).
    created_ms
        Creation of the ledger in BookKeeper, ms since 1970 UTC, or None.
    changed_ms
        When the ledger was complete in the bucket; ms since 1970 UTC.
    is_ordered
        Whether a broker wrote it, so that its entries are nearly in the order of their publish times. What was imported has any order.
    objects
        Its objects, each with its role; the first one has the entries.
    origin
        The ledger whose messages it has in entries of its own (``offload --unbatch``); None if it is not known to be made of one.
    is_open
        Whether it was still written when it was listed, in a living cluster: the same ledger may have more entries by now.

    """

    layout: int
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
    origin: Origin | None = None
    is_open: bool = False

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
        """Whether its state is sound: false means that entries are missing or unreadable."""
        return self.state is CatalogState.SOUND

    @property
    def entries(self) -> int:
        """Number of entries."""
        return self.last_entry - self.first_entry + 1

    @property
    def root(self) -> Origin:
        """The ledger whose messages it has: the one that it was made of, else itself."""
        return self.origin or Origin(self.ledger_id, self.last_entry, self.length)

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
        """The key for errors: that of the object with the entries, or the ledger's id."""
        return self.objects[0][1].key if self.objects else f"ledger {self.ledger_id}"

    @property
    def version(self) -> str:
        """A text that changes whenever an object does that the ledger is read from."""
        return " ".join((self.uuid, *(f"{stat.size}/{stat.modified_ms}/{stat.version}" for _, stat in self.objects)))

    def object(self, role: str) -> ObjectStat:
        """Return one of its objects by its role; raises `CorruptLedgerError` if it has none."""
        for name, stat in self.objects:
            if name == role:
                return stat
        raise CorruptLedgerError(f"the ledger has no {role} object", key=self.key)

    def agrees_with(self, other: "LedgerRef | LedgerMetadata") -> bool:
        """Whether two copies of one ledger claim the same entries and bytes, and the same creation if both have it."""
        created = {self.created_ms, other.created_ms} - {None}
        return (self.last_entry, self.length) == (other.last_entry, other.length) and len(created) <= 1
