"""The report of one read of a scan."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ledgerfs.catalog.missing_ledgers import MissingLedger
from ledgerfs.catalog.row_dependencies import Basis
from ledgerfs.messages.decode.chunks import Incomplete
from ledgerfs.messages.decode.entries import Skipped
from ledgerfs.messages.decode.undecodable import Undecodable


@dataclass(slots=True)
class ScanReport:
    """Skipped entries of a read, and dependencies of its rows. The read updates it with each batch, and completes it at its end.

    Attributes
    ----------
    topic
        Name of the topic.
    skipped
        Entries left out because of ``on_corrupt="skip"`` or ``on_unreadable="skip"``.
    incomplete
        Chunked messages that lack parts. Messages that wait for parts at the end of the entries are only included if that is the end of
        the topic.
    undecodable
        Values and times that could not be decoded, by version and reason.
    missing
        Unreadable ledgers of the topic; the rows contain none of their messages.
    bases
        Of each part (a partition, or the topic itself) that was read to its end: other ledgers that its rows depend on.
    is_whole
        Whether all was read, to the last row.

    """

    topic: str = ""
    skipped: list[Skipped] = field(default_factory=list)
    incomplete: list[Incomplete] = field(default_factory=list)
    undecodable: list[Undecodable] = field(default_factory=list)
    missing: Sequence[MissingLedger] = ()
    bases: list[Basis] = field(default_factory=list)
    is_whole: bool = False

    def begin(self, topic: str, missing: Sequence[MissingLedger]) -> None:
        """Clear the report at the start of a read."""
        self.topic, self.missing, self.is_whole = topic, missing, False
        for found in (self.skipped, self.incomplete, self.undecodable, self.bases):
            found.clear()

    @property
    def is_final(self) -> bool:
        """Whether all was read, and no later upload of another ledger (before, between or after the others) can change the rows.

        False if a transaction had no outcome; if a chunked message lacked parts, or was joined from several ledgers, between which others
        may be uploaded; if a ledger was pruned by other ledgers' creation times; or if the topic lacks ledgers.
        """
        return self.is_whole and not self.missing and all(one.is_final for one in self.bases)

    @property
    def basis(self) -> Basis:
        """Other ledgers that the rows depend on; of a scan with one part."""
        return self.bases[0] if self.is_whole and len(self.bases) == 1 else Basis.unknown()

    @property
    def is_damaged(self) -> bool:
        """Whether rows or values are missing because of damage."""
        return bool(self.skipped or self.missing or any(one.is_error for one in self.undecodable))
