"""A scan as a Polars lazy frame."""

from collections.abc import Iterator
from typing import cast

import polars as pl
from polars.io.plugins import register_io_source

from ledgerfs.scan.scan import Scan


def lazy_frame(scan: Scan) -> pl.LazyFrame:
    """Return a lazy frame that decodes only the columns of a query, and stops at its limit.

    Polars itself applies conditions, batch by batch: as expressions of Arrow they would treat nulls and NaN in another way.
    """
    empty = cast("pl.DataFrame", pl.from_arrow(scan.schema.empty_table()))

    def frames(
        columns: list[str] | None, predicate: pl.Expr | None, rows: int | None, _: int | None
    ) -> Iterator[pl.DataFrame]:
        wanted = scan.schema.names if columns is None else columns
        used = [] if predicate is None else predicate.meta.root_names()
        left = rows
        # Even a query of no columns counts rows.
        for batch in scan.with_columns(list(dict.fromkeys([*wanted, *used])) or scan.schema.names[:1]):
            frame = cast("pl.DataFrame", pl.from_arrow(batch))
            if predicate is not None:
                frame = frame.filter(predicate)
            frame = frame.select(wanted) if columns is not None else frame
            if left is not None:
                frame = frame.head(left)
                left -= frame.height
            yield frame
            if left == 0:
                return

    return register_io_source(io_source=frames, schema=empty.schema)
