"""One topic of a bucket: its ledgers, and its messages as a table."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ledgerfs.display import html_table, printable
from ledgerfs.formats.topic_names import topic_of
from ledgerfs.ledgers.missing_ledgers import MissingLedger
from ledgerfs.ledgers.reader import LedgerReader
from ledgerfs.ledgers.time_arguments import iso_time
from ledgerfs.scan.options import COUNT_OPTIONS, MESSAGE_OPTIONS, require_known

if TYPE_CHECKING:
    from ledgerfs.bucket.bucket import Bucket
    from ledgerfs.scan.message_by_id import Message
    from ledgerfs.scan.scan import Scan


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic of a bucket."""

    bucket: "Bucket"
    managed_ledger: str | None

    def __repr__(self) -> str:
        return f"<topic {printable(self.name)} of {self.bucket!r}>"

    def _repr_html_(self) -> str:
        """Return its ledgers as they were listed last."""
        catalog = self.bucket.listed_catalog
        refs = [] if catalog is None else catalog.refs_of(self.managed_ledger)
        rows = (
            (str(ref.ledger_id), ref.entries, ref.length, iso_time(ref.created_ms), iso_time(ref.uploaded_ms or None))
            for ref in refs
            if ref.copy == 0
        )
        return html_table(repr(self), ("ledger", "entries", "bytes", "created", "uploaded"), rows)

    @property
    def name(self) -> str:
        """``persistent://tenant/namespace/topic``."""
        return topic_of(self.managed_ledger)

    @property
    def ledgers(self) -> list[LedgerReader]:
        """Its ledgers, ascending by id, which is their order in time."""
        return self.bucket.readers_of(self.managed_ledger)

    def ledger(self, ledger_id: int) -> LedgerReader:
        """Return one of its ledgers; raises `NotFoundError`, and `MissingLedgerError` for one of those that are `missing`."""
        return self.bucket.ledger_of(self.managed_ledger, ledger_id)

    @property
    def missing(self) -> tuple[MissingLedger, ...]:
        """Ledgers of it that the bucket knows of and cannot deliver, ascending by id."""
        return self.bucket.catalog.missing_of(self.managed_ledger)

    def scan(self, columns: Sequence[str] | None = None, **options: Any) -> "Scan":  # noqa: ANN401  (those of make_scan)
        """Return the topic as a table that streams: iterate it, or hand it to pyarrow, pandas, Polars or DuckDB.

        The scan raises `MissingLedgerError` before its first row where the topic has ledgers that are `missing`, unless ``on_corrupt`` is
        "skip". Where the bucket has ledgers of which nothing tells the topic, this warns: `UnplacedLedgersWarning`.

        Parameters
        ----------
        columns
            Names, in the order wanted (`ledgerfs.messages.decode.table_schema`); what is not asked for is not built.
        options
            ``start_time``, ``end_time`` (ISO 8601 text, datetime, or ms; the end is excluded), ``transactions`` ("committed", "readable",
            "all"), ``include_markers``, ``private_keys`` ({name: PEM text or path}), ``on_encrypted`` ("raise", "null", "skip"),
            ``on_corrupt`` ("raise", "skip"), ``check_checksums``, ``max_message_bytes``, ``clock_slack_ms`` (how far a message may
            be published before one that stands before it; 10 minutes).
        """
        # pyarrow and numba, which this imports, are not needed by those who list and copy.
        from ledgerfs.scan.scan import make_scan

        ledgers, missing = self.bucket.for_reading(self.managed_ledger)
        return make_scan(self.name, ledgers, missing=missing, columns=columns, **options)

    def count(self, **options: Any) -> int:  # noqa: ANN401  (those of make_scan)
        """Return the number of messages, without building or decompressing any; ``options`` are those of `scan`."""
        require_known(options, COUNT_OPTIONS)
        return self.scan((), **options).count()

    def message(self, message_id: str | tuple[int, ...], **options: Any) -> "Message":  # noqa: ANN401  (those of read_message)
        """Return one message by its id, for the requests that reading its entry costs; more for a chunked message.

        Parameters
        ----------
        message_id
            ``ledger:entry``, ``ledger:entry:index``, or what Pulsar prints, ``ledger:entry:partition`` and
            ``ledger:entry:partition:index``, as text or tuple (`ledgerfs.scan.message_id`). A chunked message is found by any of its parts,
            and by ``first;last``.
        options
            ``private_keys``, ``on_encrypted``, ``max_message_bytes``, ``check_checksums``, ``include_markers``, as in `scan`.

        Raises
        ------
        NotFoundError
            No such ledger, entry, message of the batch; a marker; a part of a chunked message whose other parts are not near.
        InvalidNameError
            No id, or one of an entry that is a batch of several messages.
        MissingLedgerError
            The ledger is one of those that are `missing`.
        CorruptLedgerError, CorruptMessageError, EncryptedMessageError
            The entry cannot be read.

        """
        # pyarrow and numba, as above.
        from ledgerfs.scan.message_by_id import read_message

        require_known(options, MESSAGE_OPTIONS)
        return read_message(self, message_id, **options)
