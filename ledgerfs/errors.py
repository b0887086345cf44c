"""Every exception that ledgerfs raises.

Each is an `OSError` with an errno, so that a kernel mount, fsspec and plain ``except OSError`` all understand it, and each names the
object and, where there is one, the byte offset in it. None of them carries credentials. The last three never reach a user: the module that
catches them raises one of the others, with the name of the entry or file.
"""

import difflib
import errno
import os
from collections.abc import Iterable
from typing import ClassVar

__all__ = [
    "AccessDeniedError",
    "AmbiguousLedgerError",
    "ArchivedObjectError",
    "AuthenticationError",
    "BucketNotFoundError",
    "CacheWriteError",
    "CorruptIndexError",
    "CorruptLedgerError",
    "CorruptMessageError",
    "CorruptMetadataError",
    "CorruptObjectError",
    "CorruptSchemaFileError",
    "DecompressionError",
    "DecryptionError",
    "EncryptedMessageError",
    "EntryRangeError",
    "ExpiredCredentialsError",
    "ExportFolderError",
    "IncompleteCopyError",
    "InvalidNameError",
    "InvalidOptionError",
    "InvalidRowsError",
    "InvalidSchemaError",
    "IsADirectoryPathError",
    "KafkaEntryError",
    "LedgerExistsError",
    "LedgerfsError",
    "LineError",
    "MessageTooLargeError",
    "MissingLedgerError",
    "MountError",
    "MountFailedError",
    "MountpointError",
    "NameTooLongError",
    "NamedSchemasWarning",
    "NotADirectoryPathError",
    "NotFoundError",
    "ObjectExistsError",
    "ObjectNotFoundError",
    "ReadOnlyError",
    "RefusedLedgerError",
    "SchemaConflictError",
    "StaleObjectError",
    "StoreError",
    "StoreTimeoutError",
    "StoreUnreachableError",
    "UncertainWriteError",
    "UndecodableValueError",
    "UnknownSchemaError",
    "UnplacedLedgersWarning",
    "UnreadableObjectsWarning",
    "UnsupportedFormatError",
    "UnsupportedWriteError",
    "UnusableUrlError",
    "WrongBodyError",
]


class LedgerfsError(OSError):
    """Base of all our errors.

    Parameters
    ----------
    reason
        What is wrong, and what to do, in a sentence without the object's name.
    key
        The object's key in the bucket, or the path in the tree.
    offset
        Byte offset in that object.

    Attributes
    ----------
    path
        The file of the tree that was being opened, if it failed because of another object; None otherwise.
    exit_code
        Of a command that it ends: 1 damage, 2 wrong usage, 3 storage, a broker or a lock that is unreachable or refuses.

    """

    code: ClassVar[int] = errno.EIO
    exit_code: ClassVar[int] = 2
    path: str | None = None

    def __init__(self, reason: str, *, key: str | None = None, offset: int | None = None) -> None:
        super().__init__(self.code, reason)
        self.reason = reason
        self.key = key
        self.offset = offset
        self.filename = key

    def __str__(self) -> str:
        place = self.key or ""
        if self.offset is not None:
            place += f" at byte {self.offset}"
        return ": ".join(part for part in (self.path, place.strip(), self.reason) if part)

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.reason, self.key, self.offset), vars(self))


def _rebuild(cls: type[LedgerfsError], reason: str, key: str | None, offset: int | None) -> LedgerfsError:
    """Unpickle: the errors travel between processes (Spark, multiprocessing)."""
    return cls(reason, key=key, offset=offset)


class CorruptObjectError(LedgerfsError):
    """The bytes of an object contradict the format, the index, or each other."""

    exit_code = 1


class CorruptIndexError(CorruptObjectError):
    """An index object (``…-index``) cannot be what Pulsar wrote."""


class CorruptMetadataError(CorruptObjectError):
    """Ledger metadata (protobuf) or a bookie's cookie does not parse, or lacks a field that each of them has."""


class CorruptLedgerError(CorruptObjectError):
    """A data object contradicts its index, its records or their checksums."""


class MissingLedgerError(LedgerfsError):
    """A topic lacks ledgers that belong to it, as other objects of the bucket show. Without this error the rest would look whole."""

    exit_code = 1


class UnplacedLedgersWarning(UserWarning):
    """A bucket holds ledgers whose topic is unknown, or folders that may not be listed: topics may lack some ledgers."""


class UnreadableObjectsWarning(UserWarning):
    """Objects that the store refuses were left out, as ``on_unreadable="skip"`` asks for: topics and ledgers may be missing."""


class NamedSchemasWarning(UserWarning):
    """Imported rows name versions of a schema themselves: their values will be read by the schemas that their new topic has of these."""


class CorruptMessageError(CorruptObjectError):
    """An entry that is not a valid message; it is named as ``ledger:entry``."""

    @classmethod
    def of(cls, ledger_id: int, entry_id: int, reason: str) -> "CorruptMessageError":
        """Return the error for one entry."""
        return cls(reason, key=f"entry {ledger_id}:{entry_id}")


class UnknownSchemaError(LedgerfsError):
    """A topic whose schema is not known, or not in the version that is asked for."""

    code = errno.ENOENT


class UndecodableValueError(LedgerfsError):
    """A message whose value is not what its schema says, or whose schema is not known; it is named as ``ledger:entry``."""

    exit_code = 1

    @classmethod
    def of(cls, message: str, reason: str) -> "UndecodableValueError":
        """Return the error for one message."""
        return cls(f"{reason}; on_undecodable='null' or 'skip' reads on", key=f"value of message {message}")


class MessageTooLargeError(LedgerfsError):
    """A message larger than the reader's limit, and otherwise sound as far as it was read; an option raises the limit."""

    code = errno.EMSGSIZE

    @classmethod
    def of(cls, ledger_id: int, entry_id: int, reason: str) -> "MessageTooLargeError":
        """Return the error for one entry."""
        return cls(reason, key=f"entry {ledger_id}:{entry_id}")


class EncryptedMessageError(LedgerfsError):
    """A message that cannot be read with the given private keys, or without any."""

    code = errno.EACCES

    @classmethod
    def of(cls, ledger_id: int, entry_id: int, reason: str) -> "EncryptedMessageError":
        """Return the error for one entry."""
        return cls(reason, key=f"entry {ledger_id}:{entry_id}")


class DecryptionError(LedgerfsError):
    """A message cannot be decrypted with the given private keys, or a private key cannot be used."""

    code = errno.EACCES


class UnsupportedFormatError(LedgerfsError):
    """A format that is known by name but not read, such as PIP-76 streaming objects (V2)."""

    code = errno.ENOTSUP
    exit_code = 1


class KafkaEntryError(UnsupportedFormatError):
    """An entry that Kafka on Pulsar (KoP) wrote in Kafka's format (``entry.format=kafka``); it is sound, and named as ``ledger:entry``."""

    @classmethod
    def of(cls, ledger_id: int, entry_id: int, reason: str) -> "KafkaEntryError":
        """Return the error for one entry."""
        return cls(
            f'{reason}; on_corrupt="skip" (--on-corrupt skip) reads the rest', key=f"entry {ledger_id}:{entry_id}"
        )


class StaleObjectError(LedgerfsError):
    """The object was replaced since it was opened; opening it again shows the new one."""

    code = errno.ESTALE
    exit_code = 1


class NotFoundError(LedgerfsError, FileNotFoundError):
    """No such bucket, object, topic, ledger or path."""

    code = errno.ENOENT


class BucketNotFoundError(NotFoundError):
    """The bucket, or the folder in it, does not exist."""

    exit_code = 3


class ObjectNotFoundError(NotFoundError):
    """An object that the bucket's listing or an index names does not exist."""

    exit_code = 1


class AccessDeniedError(LedgerfsError, PermissionError):
    """The store refused: credentials are missing, wrong, or not allowed to do this."""

    code = errno.EACCES
    exit_code = 3


class ArchivedObjectError(AccessDeniedError):
    """The object is in an archive (Glacier, Deep Archive, Azure's archive tier): it must be restored before it can be read."""


class ExpiredCredentialsError(AccessDeniedError):
    """The session token has expired, and the credentials that the machine has now are refused, too."""


class AuthenticationError(AccessDeniedError):
    """A broker does not know who asks: a token is missing, wrong or expired."""


class StoreError(LedgerfsError):
    """The store answered with an error, or with a body of the wrong length, even after retries."""

    exit_code = 3


class WrongBodyError(StoreError):
    """The store sent other bytes than asked for."""


class StoreUnreachableError(StoreError):
    """The store could not be reached at all."""

    code = errno.EHOSTUNREACH


class StoreTimeoutError(StoreUnreachableError):
    """The store did not answer in time."""

    code = errno.ETIMEDOUT


class UncertainWriteError(StoreError):
    """It is unknown whether a write was done: the store failed during it, and cannot be asked."""


class ObjectExistsError(LedgerfsError, FileExistsError):
    """The object exists already; objects are never overwritten."""

    code = errno.EEXIST


class LedgerExistsError(ObjectExistsError):
    """The bucket has a ledger of this id already."""


class RefusedLedgerError(LedgerfsError):
    """Entries that cannot be a ledger that a broker serves: none at all, gaps between them, one larger than a block."""

    code = errno.EINVAL


class InvalidRowsError(LedgerfsError):
    """Rows, or a file of rows, that cannot be written as messages."""

    code = errno.EINVAL

    @classmethod
    def of(cls, row: int, reason: str) -> "InvalidRowsError":
        """Return the error for a row; rows count from 0 across all given tables."""
        return cls(reason, key=f"row {row}")


class InvalidSchemaError(LedgerfsError):
    """The schema of values is not what its type says, or not one that values can be read with."""

    code = errno.EINVAL


class CorruptSchemaFileError(CorruptObjectError):
    """An object among the saved schemas that is torn, damaged, or none that ledgerfs wrote."""


class SchemaConflictError(LedgerfsError):
    """One version of a topic has different schemas: those of two clusters, saved in one place, or one that rows are to be written with."""

    code = errno.EEXIST


class UnsupportedWriteError(LedgerfsError):
    """A write that this store, or ledgerfs, cannot do."""

    code = errno.ENOTSUP


class CacheWriteError(LedgerfsError):
    """A file that is rendered before it is read cannot be written to the cache folder, usually since that is full."""

    code = errno.ENOSPC


class ExportFolderError(LedgerfsError):
    """The folder of an export cannot be written, another export or an import is at it, or it may lack rows that are to be imported."""

    @classmethod
    def of(cls, error: OSError, path: object) -> "ExportFolderError":
        """Return the error for an error of the operating system at ``path``, with its errno."""
        made = cls(error.strerror or str(error), key=str(path))
        made.errno = error.errno
        return made


class IncompleteCopyError(LedgerfsError):
    """Some ledgers of a bucket were not copied; the others were.

    Attributes
    ----------
    report
        What became of each (`ledgerfs.writing.copy_ledgers.CopyReport`); None in another process.

    """

    report: object = None


class ReadOnlyError(LedgerfsError):
    """Nothing can be written at this path."""

    code = errno.EROFS

    @classmethod
    def at(cls, path: str) -> "ReadOnlyError":
        """Return the error for an attempt to change ``path``."""
        return cls(os.strerror(errno.EROFS), key=path)


class IsADirectoryPathError(LedgerfsError, IsADirectoryError):
    """A file was asked for, the path is a directory."""

    code = errno.EISDIR


class NotADirectoryPathError(LedgerfsError, NotADirectoryError):
    """A directory was asked for, the path is a file."""

    code = errno.ENOTDIR


class NameTooLongError(LedgerfsError):
    """A file was not copied here, since its name is longer than the local file system allows."""

    code = errno.ENAMETOOLONG


class EntryRangeError(LedgerfsError):
    """Entries were asked for that the ledger does not have."""

    code = errno.EINVAL


class InvalidNameError(LedgerfsError):
    """A name that Pulsar would not accept, of a topic, a managed ledger, a ledger or a message, or that a new ledger must not have."""

    code = errno.EINVAL


class InvalidOptionError(LedgerfsError):
    """An unknown option, or an invalid value of an option or argument."""

    code = errno.EINVAL

    @classmethod
    def unknown(cls, name: str, known: Iterable[str]) -> "InvalidOptionError":
        """Return the error for an unknown option, with the known names and the nearest one."""
        names = list(known)
        by_case = {one.lower(): one for one in names}
        near = difflib.get_close_matches(name.lower(), by_case, n=1)
        meant = f"; did you mean {by_case[near[0]]}?" if near else ""
        return cls(f"no such option; there are {', '.join(names)}{meant}", key=name)


class UnusableUrlError(LedgerfsError):
    """A bucket URL that no installed filesystem can open."""

    code = errno.EINVAL


class AmbiguousLedgerError(LedgerfsError):
    """Several topics have a ledger of this id (a bucket that two clusters share)."""

    code = errno.EINVAL


class MountpointError(LedgerfsError):
    """A folder that cannot be mounted on, or is not mounted."""

    code = errno.EINVAL


class MountFailedError(LedgerfsError):
    """The system refuses to mount, or lacks what mounting needs."""

    code = errno.EINVAL


class MountError(OSError):
    """An answer to the kernel: an errno alone."""


class DecompressionError(ValueError):
    """A payload that does not decompress to what its metadata claims; the caller adds the entry's name."""


class LineError(ValueError):
    """A line that is not a valid message; the caller adds the file's name."""

    def __init__(self, line: int, reason: object) -> None:
        super().__init__(f"line {line}: {reason}")
