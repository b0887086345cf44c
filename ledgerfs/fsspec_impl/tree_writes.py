"""The write side of the tree, for fsspec's methods."""

import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.catalog.layout import Progress
from ledgerfs.errors import InvalidNameError, InvalidOptionError, LedgerExistsError
from ledgerfs.formats.pulsar_blob.object_names import LedgerKey
from ledgerfs.fsspec_impl.ledger_upload import LedgerUpload
from ledgerfs.vfs.removal import Removal, chosen, remove
from ledgerfs.vfs.target import require_writable, target_of
from ledgerfs.vfs.tree import tree_of
from ledgerfs.writing.admission import Admission, together
from ledgerfs.writing.claims import IfExists
from ledgerfs.writing.sources import EntrySource, OffloadedLedger, RecordFile
from ledgerfs.writing.write import (
    Wanted,
    copied_metadata,
    copied_user_metadata,
    measured,
    open_writer,
    own_block_size,
    require_new_ids,
)

if TYPE_CHECKING:
    from ledgerfs.fsspec_impl.ledger_transaction import LedgerTransaction

_MOST_NAMED = 5
_OPTIONS = ("block_size", "if_exists", "transform", "metadata", "user_metadata", "uuid")


@dataclass(frozen=True, slots=True)
class TreeWrites:
    """The write side of one filesystem.

    Attributes
    ----------
    defaults
        Options of all writes: ``block_size`` (bytes), ``if_exists`` ("fail", "skip", "new-copy"), ``transform``.
    transaction
        The current transaction; None outside of one.

    """

    bucket: Bucket
    defaults: Mapping[str, Any]
    transaction: "LedgerTransaction | None" = None

    def create(self, path: str, *, autocommit: bool = True, **options: Any) -> LedgerUpload:  # noqa: ANN401
        """Open a path for writing; raises the errors of the path and its id."""
        with together(self.bucket) as admission:
            return self._opened(admission, path, *self._wanted(path, options), autocommit=autocommit)

    def put(self, path: str, local: str, tell: Callable[[int], None], options: dict[str, Any]) -> None:
        """Copy a local file of records in."""
        self._write(path, RecordFile.at(Path(local)), *self._wanted(path, options), progress=_added(tell))

    def pipe(self, path: str, data: bytes, options: dict[str, Any]) -> None:
        """Write bytes of records as a ledger."""
        self._write(path, RecordFile.of(path, data), *self._wanted(path, options))

    def copy(self, source: str, path: str, options: dict[str, Any]) -> None:
        """Copy one ledger of the bucket to another path, with its metadata except the topic.

        Does nothing for a directory: fsspec's recursive copy passes directories, but they need not be made.
        """
        node = tree_of(self.bucket).node(source)
        node.require_there()
        if node.ref is None:
            require_writable(path)
            return
        if not source.endswith(".entries"):
            raise InvalidNameError("only files below entries/ can be copied within a bucket", key=source)
        reader = self.bucket.reader(node.ref)
        wanted, policy = self._wanted(path, options)
        require_new_ids(wanted.ledger_id, node.ref.ledger_id, wanted.transform)
        wanted = replace(
            wanted,
            block_size=wanted.block_size or own_block_size(reader),
            metadata=wanted.metadata or copied_metadata(reader, wanted.ledger_id, wanted.managed_ledger),
            user_metadata=wanted.user_metadata or copied_user_metadata(reader, wanted.managed_ledger),
        )
        self._write(path, OffloadedLedger(reader), wanted, policy)

    def remove(self, paths: Sequence[str], directories: Sequence[str] = ()) -> None:
        """Delete ledgers, which must all exist, at the end of the transaction if there is one.

        Names of copies are the names before the deletion. Raises as `remove_chosen`.
        """
        removal = chosen(self.bucket, paths, directories)
        if self.transaction is None:
            self.remove_chosen([removal])
        else:
            self.transaction.removals.append(removal)

    def remove_chosen(self, removals: Sequence[Removal], own: Collection[LedgerKey] = ()) -> None:
        """Delete chosen ledgers.

        Warns about further copies that have the names now, and raises `LedgerExistsError` if another writer put ledgers there meanwhile;
        ``own`` are ledgers that the caller wrote there.
        """
        left = remove(self.bucket, removals, own)
        for one in left:
            if not one.is_new:
                warnings.warn(str(one), stacklevel=5)
        new = [one for one in left if one.is_new]
        if new:
            named = "; ".join(map(str, new[:_MOST_NAMED]))
            count = sum(len(one.keys) for one in removals)
            raise LedgerExistsError(f"{count} ledgers were removed; {named}", key=new[0].path)

    def _write(
        self, path: str, source: EntrySource, wanted: Wanted, policy: IfExists, progress: Progress | None = None
    ) -> None:
        with together(self.bucket) as admission:
            is_skipped = policy is IfExists.SKIP and admission.is_there(
                wanted.claim(policy), lambda: measured(source, wanted.new_ledger())
            )
            if is_skipped:
                if self.transaction is not None:
                    self.transaction.skipped.update(dict.fromkeys(admission.skipped))
                return
            with self._opened(admission, path, wanted, policy, autocommit=self.transaction is None) as file:
                if self.transaction is not None:
                    self.transaction.files.append(file)
                file.add_all(source, progress)

    def _opened(
        self, admission: Admission, path: str, wanted: Wanted, policy: IfExists, *, autocommit: bool
    ) -> LedgerUpload:
        if self.transaction is not None:
            _require_no_other(wanted, path, self.transaction.files)
        return LedgerUpload(path, open_writer(admission, wanted, path, policy), autocommit=autocommit)

    def _wanted(self, path: str, options: Mapping[str, Any]) -> tuple[Wanted, IfExists]:
        """Return the ledger of a path and the policy of a write, from its options, else from `defaults`.

        Ignores options that fsspec adds for other filesystems. Raises `InvalidOptionError`, and as `target_of`.
        """
        managed_ledger, ledger_id = target_of(path)
        unknown = ", ".join(sorted(set(self.defaults) - set(_OPTIONS)))
        if unknown:
            raise InvalidOptionError(f"not an option of a write; the options are {', '.join(_OPTIONS)}", key=unknown)
        named = {name: value for name, value in options.items() if name in _OPTIONS and value is not None}
        given = {**self.defaults, **named}
        policy = IfExists.of(given.pop("if_exists", IfExists.FAIL))
        return Wanted(managed_ledger, ledger_id, **given), policy


def _added(tell: Callable[[int], None]) -> Progress:
    """Return a progress callback that reports the bytes since its last call, as fsspec requires."""
    reported = 0

    def progress(_: str, done: int, __: int | None) -> None:
        nonlocal reported
        tell(done - reported)
        reported = done

    return progress


def _require_no_other(wanted: Wanted, path: str, beside: Iterable[LedgerUpload]) -> None:
    """Raise `LedgerExistsError` if a transaction writes an id twice, which no listing of the bucket shows."""
    for one in beside:
        if one.is_pending and one.ledger.key.ledger_id == wanted.ledger_id:
            reason = f"the same transaction already writes ledger {wanted.ledger_id} as {one.path}"
            raise LedgerExistsError(f"{reason}; ids are unique in a cluster", key=path)
