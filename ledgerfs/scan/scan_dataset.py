"""Scans as a pyarrow dataset: DuckDB passes it columns and a filter, which reach the scans.

DuckDB accepts a subclass of `pyarrow.dataset.Dataset`, and uses only ``schema`` and ``scanner``.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import dataset

from ledgerfs.errors import LedgerfsError
from ledgerfs.scan.report import ScanReport

if TYPE_CHECKING:
    import pyarrow.compute as pc

    from ledgerfs.scan.scan import Scan

OnReport = Callable[[ScanReport], None]
"""Called with the report of each read when it begins."""

OnFailure = Callable[[Exception], None]
"""Called with the error of a read, since DuckDB passes on only its text."""


class ScanDataset(dataset.Dataset):  # type: ignore[misc]
    """Some scans with the same columns, one after the other, as a table that each query reads again.

    ``open_scans`` is called on first use.
    """

    def __init__(
        self,
        open_scans: "Callable[[], Sequence[Scan]]",
        *,
        on_report: OnReport = lambda _: None,
        on_failure: OnFailure = lambda _: None,
    ) -> None:
        # Without super().__init__(), which pyarrow refuses: other methods of a dataset do not work.
        self._open_scans = open_scans
        self._on_report = on_report
        self._on_failure = on_failure

    @cached_property
    def _scans(self) -> "Sequence[Scan]":
        return self._open_scans()

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._scans[0].schema

    def scanner(
        self,
        columns: Sequence[str] | None = None,
        filter: "pc.Expression | None" = None,  # noqa: A002  (pyarrow's name)
        **_: Any,  # noqa: ANN401
    ) -> "ScanScanner":
        """Return the rows for which ``filter`` is true, with some columns."""
        names = self.schema.names if columns is None else columns
        return ScanScanner([one.with_columns(names, filter) for one in self._scans], self._on_report, self._on_failure)


class ScanScanner:
    """The rows of one query."""

    __slots__ = ("_on_failure", "_on_report", "_scans")

    def __init__(self, scans: "Sequence[Scan]", on_report: OnReport, on_failure: OnFailure) -> None:
        self._scans = scans
        self._on_report = on_report
        self._on_failure = on_failure

    @property
    def projected_schema(self) -> pa.Schema:
        """The columns of the rows."""
        return self._scans[0].schema

    def to_reader(self) -> pa.RecordBatchReader:
        """Read one scan after the other."""
        return pa.RecordBatchReader.from_batches(self.projected_schema, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        try:
            for scan in self._scans:
                report = ScanReport()
                self._on_report(report)
                yield from scan.batches(report)
        except Exception as error:
            if isinstance(error, LedgerfsError):
                error.path = error.path or scan.topic
            self._on_failure(error)
            raise
