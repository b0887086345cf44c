"""One ledger of a bucket, from the catalog."""

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
    """State of a ledger by the catalog, without reading its entries."""

    SOUND = 0
    """Index, sizes and metadata agree."""
    DAMAGED = 1
    """Index, sizes and metadata disagree: entries are missing or unreadable."""
    LOST = 2
    """Objects of the ledger exist, but its bytes are gone."""


@dataclass(frozen=True, slots=True)
class LedgerRef:
    """One ledger of a bucket.

    Attributes
    ----------
    layout
        Number of its layout (`ledgerfs.catalog.layouts_known`).
    uuid
        Uuid of this copy, from the offload attempt.
    managed_ledger
        Name of the managed ledger; None if unknown.
    copy
        0 for the copy to read; others are further uploads of the same ledger.
    first_entry, last_entry
        Ids of its entries.
    length
        Bytes of all entries; -1 if unknown.
    stored, expected
        Bytes of the entries in the store, and by the ledger's own metadata; -1 if lost, or unknown.
    cuts
        Number of split points (`LedgerReader.cuts`).
    created_ms
        Creation of the ledger in BookKeeper, ms since 1970 UTC, or None.
    changed_ms
        Completion of the ledger in the bucket, ms since 1970 UTC.
    is_ordered
        Whether a broker wrote it, so that its entries are nearly in the order of their publish times. Imported entries may have any order.
    objects
        Its objects, each with its role; the first one has the entries.
    origin
        The ledger that it was made of by writing its messages into new entries (``offload --unbatch``); None if there is none, or unknown.
    is_open
        Whether it was not yet closed at the time of the listing, in a live cluster: it may have more entries now.

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
        """Topic name for users."""
        return topic_of(self.managed_ledger)

    @property
    def is_sound(self) -> bool:
        """Whether its state is sound; otherwise entries are missing or unreadable."""
        return self.state is CatalogState.SOUND

    @property
    def entries(self) -> int:
        """Number of entries."""
        return self.last_entry - self.first_entry + 1

    @property
    def root(self) -> Origin:
        """The ledger that it was made of, else itself."""
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
        """The key for errors: the key of the object with the entries, or the ledger's id."""
        return self.objects[0][1].key if self.objects else f"ledger {self.ledger_id}"

    @property
    def version(self) -> str:
        """A text that changes with any object of the ledger."""
        return " ".join((self.uuid, *(f"{stat.size}/{stat.modified_ms}/{stat.version}" for _, stat in self.objects)))

    def object(self, role: str) -> ObjectStat:
        """Return one of its objects by its role; raises `CorruptLedgerError` if it has none."""
        for name, stat in self.objects:
            if name == role:
                return stat
        raise CorruptLedgerError(f"the ledger has no {role} object", key=self.key)

    def agrees_with(self, other: "LedgerRef | LedgerMetadata") -> bool:
        """Return whether two copies of one ledger have equal numbers of entries and bytes, and equal creation times if both have one."""
        created = {self.created_ms, other.created_ms} - {None}
        return (self.last_entry, self.length) == (other.last_entry, other.length) and len(created) <= 1
