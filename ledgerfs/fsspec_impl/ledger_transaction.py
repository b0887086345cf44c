"""A transaction of fsspec: its writes appear at its end, and its removals follow after that.

fsspec's own transaction defers only writes. A program that copies a ledger and removes the original would lose both if it failed before the
end, or if another writer took the copy's id meanwhile.
"""

from typing import TYPE_CHECKING

from fsspec.transaction import Transaction

if TYPE_CHECKING:
    from ledgerfs.fsspec_impl.filesystem import LedgerFileSystem
    from ledgerfs.vfs.removal import Removal
    from ledgerfs.writing.admission import Expected


class LedgerTransaction(Transaction):
    """The writes and removals of one ``with fs.transaction``.

    Attributes
    ----------
    skipped
        Existing ledgers that were not written again (``if_exists="skip"``). They must still exist at the end.
    removals
        Ledgers to remove at the end, by the names of their objects at the time of the call.

    """

    def __init__(self, fs: "LedgerFileSystem") -> None:
        super().__init__(fs)
        self.skipped: dict[Expected, None] = {}
        self.removals: list[Removal] = []

    def complete(self, commit: bool = True) -> None:
        """Write all ledgers, list the bucket once to confirm them, and then remove; or drop everything.

        Raises as `LedgerUpload.commit`, `Admission.confirm` and `LedgerFileSystem.rm`; after errors of the first two, removes nothing.
        """
        fs, removals, self.removals = self.fs, self.removals, []
        skipped, self.skipped = self.skipped, {}
        uploads = list(self.files)
        if not commit:
            super().complete(commit=False)
            return
        # This imports numba, which reading does not need.
        from ledgerfs.fsspec_impl.tree_writes import TreeWrites
        from ledgerfs.writing.admission import together

        with together(fs.bucket) as admission:
            admission.expect(skipped)
            super().complete(commit=True)
        if removals:
            own = {upload.written.ledger.key for upload in uploads if upload.written is not None}
            TreeWrites(fs.bucket, {}).remove_chosen(removals, own)
