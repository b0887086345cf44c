"""A transaction of fsspec: what is written in it appears at its end, and what is removed in it is removed after that.

fsspec's own defers writes only. A program that copies a ledger and removes the original would have neither if it failed before the end, or
if somebody else took the copy's id meanwhile.
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
        Ledgers that were there already, so that nothing was written (``if_exists="skip"``). They have to be there at the end, too.
    removals
        Ledgers that are removed at the end, by the names of their objects when they were chosen.

    """

    def __init__(self, fs: "LedgerFileSystem") -> None:
        super().__init__(fs)
        self.skipped: dict[Expected, None] = {}
        self.removals: list[Removal] = []

    def complete(self, commit: bool = True) -> None:
        """Write all, list the bucket once to confirm them, and then remove; or drop all of it.

        Raises as `LedgerUpload.commit`, `Admission.confirm` and `LedgerFileSystem.rm`; nothing is removed if it is not for the last.
        """
        fs, removals, self.removals = self.fs, self.removals, []
        skipped, self.skipped = self.skipped, {}
        uploads = list(self.files)
        if not commit:
            super().complete(commit=False)
            return
        # numba, which reading does not need.
        from ledgerfs.fsspec_impl.tree_writes import TreeWrites
        from ledgerfs.writing.admission import together

        with together(fs.bucket) as admission:
            admission.expect(skipped)
            super().complete(commit=True)
        if removals:
            own = {upload.written.ledger.key for upload in uploads if upload.written is not None}
            TreeWrites(fs.bucket, {}).remove_chosen(removals, own)
