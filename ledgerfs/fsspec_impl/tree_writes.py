"""What fsspec's writing methods do to the tree of a bucket."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ledgerfs.errors import InvalidNameError, InvalidOptionError
from ledgerfs.fsspec_impl.ledger_upload import LedgerUpload
from ledgerfs.vfs.bucket import Bucket
from ledgerfs.vfs.writing.copies import copied_user_metadata, own_block_size
from ledgerfs.vfs.writing.sources import EntrySource, OffloadedLedger, RecordBytes, RecordFile
from ledgerfs.vfs.writing.target import removable, require_writable, target_of
from ledgerfs.vfs.writing.write import IfExists, Wanted, is_there, open_writer, remove_ledger, require_new_ids

Open = Callable[..., AbstractContextManager[LedgerUpload]]
"""Opens a path for writing as fsspec has it, within a transaction if there is one."""

_OPTIONS = ("block_size", "if_exists", "transform", "metadata", "user_metadata", "uuid")


@dataclass(frozen=True, slots=True)
class TreeWrites:
    """The write side of one filesystem.

    Attributes
    ----------
    defaults
        Options of all writes: ``block_size`` (bytes), ``if_exists`` ("fail", "skip", "new-copy"), ``transform``.

    """

    bucket: Bucket
    defaults: Mapping[str, Any]

    def create(self, path: str, *, autocommit: bool = True, **options: Any) -> LedgerUpload:  # noqa: ANN401
        """Open a path for writing; raises what is known to be wrong with it."""
        managed_ledger, ledger_id = target_of(path)
        given = self._options(options)
        wanted = {name: given.get(name) for name in _OPTIONS if name != "if_exists"}
        writer = open_writer(self.bucket, Wanted(managed_ledger, ledger_id, **wanted), _policy(given))

        def note() -> None:
            self.bucket.note_written(ledger_id, managed_ledger)

        return LedgerUpload(path, writer, note, autocommit=autocommit)

    def put(self, path: str, local: str, open_path: Open, tell: Callable[[int], None], options: dict[str, Any]) -> None:
        """Copy a local file of records in."""
        self._write(path, RecordFile.at(Path(local)), open_path, tell, options)

    def pipe(self, path: str, data: bytes, open_path: Open, options: dict[str, Any]) -> None:
        """Make bytes of records a ledger."""
        self._write(path, RecordBytes(path, data), open_path, lambda _: None, options)

    def copy(self, source: str, path: str, open_path: Open, options: dict[str, Any]) -> None:
        """Copy one ledger of the bucket to another path, with all that is told of it but whose it is.

        Of a directory nothing: fsspec hands each of them over when it copies recursively, and they need not be made.
        """
        node = self.bucket.tree.node(source)
        node.require_there()
        if node.ref is None:
            require_writable(path)
            return
        if not source.endswith(".entries"):
            raise InvalidNameError("only files of entries/ are copied within a bucket", key=source)
        reader = self.bucket.reader(node.ref)
        transform = self._options(options).get("transform")
        managed_ledger, ledger_id = target_of(path)
        require_new_ids(ledger_id, node.ref.ledger_id, keeps_ids=transform is None or transform.keeps_ids)
        known = {
            "block_size": own_block_size(reader),
            "metadata": reader.index.metadata,
            "user_metadata": copied_user_metadata(reader, managed_ledger),
        }
        self._write(path, OffloadedLedger(reader), open_path, lambda _: None, {**known, **options})

    def remove(self, paths: Sequence[str]) -> None:
        """Delete ledgers, all of which have to be there; names of copies are those of before."""
        tree = self.bucket.tree
        for key in [removable(tree, path) for path in paths]:
            remove_ledger(self.bucket, key)

    def _write(
        self, path: str, source: EntrySource, open_path: Open, tell: Callable[[int], None], options: dict[str, Any]
    ) -> None:
        _, ledger_id = target_of(path)
        if _policy(self._options(options)) is IfExists.SKIP and is_there(self.bucket, ledger_id, IfExists.SKIP):
            return
        with open_path(path, "wb", **options) as file:
            source.check(file.ledger)
            for batch in source.batches(file.ledger):
                file.add(batch)
                tell(int(batch.lengths.sum()) + 12 * len(batch))

    def _options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options of a write; those that fsspec adds for others are left out, and none of those of all writes is."""
        unknown = ", ".join(sorted(set(self.defaults) - set(_OPTIONS)))
        if unknown:
            raise InvalidOptionError(f"no option of a write; there are {', '.join(_OPTIONS)}", key=unknown)
        named = {name: value for name, value in given.items() if name in _OPTIONS and value is not None}
        return {**self.defaults, **named}


def _policy(options: Mapping[str, Any]) -> IfExists:
    try:
        return IfExists(options.get("if_exists", IfExists.FAIL))
    except ValueError as error:
        raise InvalidOptionError(f"if_exists is one of {', '.join(IfExists)}", key=str(options["if_exists"])) from error
