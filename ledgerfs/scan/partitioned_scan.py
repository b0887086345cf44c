"""A partitioned topic read as one table: its partitions one after the other, or merged by publish time.

Each partition is a scan of its own: chunked messages are joined, and outcomes of transactions are looked for, within a partition.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import pyarrow as pa

from ledgerfs.catalog.missing_ledgers import MissingLedger, require_present
from ledgerfs.catalog.reader import OnRead
from ledgerfs.catalog.row_dependencies import Basis
from ledgerfs.display import names_shown, printable
from ledgerfs.messages.decode.chunks import Incomplete
from ledgerfs.messages.decode.entries import Skipped
from ledgerfs.messages.decode.undecodable import Undecodable, add_undecodable
from ledgerfs.scan.merged_batches import merged_by_publish_time
from ledgerfs.scan.options import Order
from ledgerfs.scan.scan import Scan, schema_table
from ledgerfs.scan.value_bytes import TopicLedgers


@dataclass(slots=True)
class PartitionedScan:
    """A table of several partitions that is read by each iteration; an Arrow stream as `Scan` is.

    Memory is bounded by that of one scan; if partitions are merged, by that for each of them. `to_reader`, `to_table` and `to_pandas`
    are those of `Scan`.

    Attributes
    ----------
    whole
        A scan of no ledgers with the name of the topic, and the options.
    partitions
        The scan of each, ordered by number, from one catalog. After an iteration, ``basis`` of each is what its rows depend on.
    order
        ``partition``: one after the other. ``publish_time``: the next row is the one with the least publish time among the next rows of
        all partitions; of equal ones, that of the lowest partition. Either way the rows of a partition keep their order, so times go
        back where they go back in a partition.
    on_read
        Called with the bytes of entries as they are read, to show progress.

    """

    whole: Scan
    partitions: Sequence[Scan]
    order: Order = "partition"
    on_read: OnRead | None = None

    def __repr__(self) -> str:
        columns = ", ".join(self.schema.names)
        return f"<scan of {printable(self.topic)}: {len(self.partitions):,} partitions, columns {columns}>"

    def __dir__(self) -> list[str]:
        return list(names_shown(self))

    def _repr_html_(self) -> str:
        """Return the schema as HTML; nothing is read."""
        return schema_table(self)

    @classmethod
    def of(cls, whole: Scan, partitions: Sequence[TopicLedgers], order: Order) -> "PartitionedScan":
        """Return the scan of some partitions, with the options of ``whole``, a scan of no ledgers."""
        names, options = whole.message_columns, whole.options
        if not names:
            # Rows without columns are equal in any order.
            order = "partition"
        if order == "publish_time" and "publish_time" not in names:
            options = replace(options, columns=(*names, "publish_time"))
        return cls(whole, [one.scan_as(replace(whole, options=options)) for one in partitions], order)

    @property
    def topic(self) -> str:
        """Name of the partitioned topic; the column ``topic`` has the names of the partitions."""
        return self.whole.topic

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""
        return self.whole.schema

    @property
    def skipped(self) -> list[Skipped]:
        """After an iteration: entries left out because of ``on_corrupt="skip"``, of all partitions."""
        return [one for scan in self.partitions for one in scan.skipped]

    @property
    def incomplete(self) -> list[Incomplete]:
        """After an iteration: chunked messages that lack parts, of all partitions."""
        return [one for scan in self.partitions for one in scan.incomplete]

    @property
    def undecodable(self) -> list[Undecodable]:
        """After an iteration: values and times that could not be decoded, by version and reason, of all partitions."""
        found: list[Undecodable] = []
        for one in (one for scan in self.partitions for one in scan.undecodable):
            add_undecodable(found, one)
        return found

    @property
    def missing(self) -> tuple[MissingLedger, ...]:
        """Ledgers of all partitions that cannot be read; they raise `MissingLedgerError` as those of a `Scan` do."""
        return tuple(one for scan in self.partitions for one in scan.missing)

    @property
    def is_final(self) -> bool:
        """After a whole iteration: whether no ledger that is uploaded later can change the rows, of any partition."""
        return all(scan.is_final for scan in self.partitions)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        self._begin()
        if self.order == "publish_time":
            # The publish time may be read only for merging: then it is the last column, and a field of values may have its name.
            schema = self.schema
            merged = merged_by_publish_time([iter(scan) for scan in self.partitions])
            return (pa.RecordBatch.from_arrays(batch.columns[: len(schema)], schema=schema) for batch in merged)
        return chain.from_iterable(self.partitions)

    def count(self) -> int:
        """Return the number of messages; no column is built for it, and nothing decompressed or decrypted, as in `Scan.count`."""
        self._begin()
        return sum(scan.count() for scan in self.partitions)

    to_reader = Scan.to_reader
    to_table = Scan.to_table
    to_pandas = Scan.to_pandas
    __arrow_c_stream__ = Scan.__arrow_c_stream__

    def require_all(self) -> None:
        """Raise as `require_present` if any partition lacks ledgers."""
        require_present(self.topic, self.missing, self.whole.options.on_corrupt)

    def _begin(self) -> None:
        """Require all ledgers of all partitions, before the first row of any, and reset the results of an earlier iteration."""
        self.require_all()
        for scan in self.partitions:
            scan.skipped, scan.incomplete, scan.undecodable = [], [], []
            scan.basis, scan.on_read = Basis.unknown(), self.on_read
