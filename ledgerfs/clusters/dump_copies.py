"""A dump that is kept beside a bucket, as a whole dump in a file of this machine."""

import os
from pathlib import Path
from uuid import uuid4

from ledgerfs.clusters.dump_file import DumpWriter
from ledgerfs.clusters.kept_dumps import KeptDump, kept_dump_lines
from ledgerfs.errors import InvalidOptionError, LedgerfsError, ObjectExistsError
from ledgerfs.storage.object_store import ObjectStore


def copy_kept_dump(store: ObjectStore, kept: KeptDump, path: Path) -> int:
    """Write a dump to a file that only its owner can read, once all of it is read and compared; return the file's bytes.

    Raises `ObjectExistsError` if there is such a file, `InvalidOptionError` if it cannot be written, and as
    `ledgerfs.clusters.kept_dumps.read_kept_dump`.
    """
    if path.exists():
        raise ObjectExistsError("the file is there already", key=str(path))
    part = path.with_name(f".{path.name}.{uuid4().hex}.part")
    try:
        _write(store, kept, part)
        size = part.stat().st_size
        part.rename(path)
    except LedgerfsError:
        raise
    except OSError as error:
        raise InvalidOptionError(f"the dump cannot be written: {error.strerror}", key=str(path)) from error
    finally:
        part.unlink(missing_ok=True)
    return size


def _write(store: ObjectStore, kept: KeptDump, path: Path) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        writer = DumpWriter(file)
        for line in kept_dump_lines(store, kept):
            writer.write_line(line)
        writer.flush()
        os.fsync(file.fileno())
