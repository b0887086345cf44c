"""The file formats of a ledger: each is a first component of the tree, and converts a ledger to a file."""

from collections.abc import Mapping

from ledgerfs.cache.rendered_files import RenderedFiles
from ledgerfs.catalog.file_reader import FileReader
from ledgerfs.vfs.views.entries import EntriesView
from ledgerfs.vfs.views.info import InfoView
from ledgerfs.vfs.views.ledger_tables import LedgerTables
from ledgerfs.vfs.views.rendered import RenderedView
from ledgerfs.vfs.views.view import View

__all__ = ["FileReader", "View", "make_views"]

RENDERED_KINDS = ("arrow", "jsonl", "parquet")
"""File formats that contain a table of messages."""


def make_views(tables: LedgerTables, files: RenderedFiles) -> Mapping[str, View]:
    """Return the file formats of one bucket by their names in the tree, sorted."""
    views: dict[str, View] = {"entries": EntriesView(tables, files), "info": InfoView()}
    views |= {kind: RenderedView(kind, tables, files) for kind in RENDERED_KINDS}
    return dict(sorted(views.items()))
