"""The fsspec filesystem of protocol ``ledger``, for pandas, Polars, pyarrow, Dask and DuckDB."""

from ledgerfs.fsspec_impl.filesystem import LedgerFileSystem

__all__ = ["LedgerFileSystem"]
