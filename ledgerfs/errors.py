"""All exceptions of ledgerfs.

Each is an `OSError` with an errno, for kernel mounts, fsspec and plain ``except OSError``, and contains the object's key and, if known, the
byte offset in it, but no credentials. The last three never reach a user: the module that catches them raises one of the others, with the
name of the entry or file.
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
    """Base class of all errors of ledgerfs.

    Parameters
    ----------
    reason
        What is wrong and what to do, in a sentence without the object's name.
    key
        The object's key in the bucket, or the path in the tree.
    offset
        Byte offset in that object.

    Attributes
    ----------
    path
        The opened file of the tree, if it failed because of another object; None otherwise.
    exit_code
        Exit code of a command: 1 damage, 2 wrong usage, 3 storage, a broker or a lock that is unreachable or refuses.

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
    """Unpickle an error from another process (Spark, multiprocessing)."""
    return cls(reason, key=key, offset=offset)


class CorruptObjectError(LedgerfsError):
    """The bytes of an object contradict the format, the index, or each other."""

    exit_code = 1


class CorruptIndexError(CorruptObjectError):
    """An index object (``…-index``) differs from Pulsar's format."""


class CorruptMetadataError(CorruptObjectError):
    """Ledger metadata (protobuf) or a bookie's cookie does not parse, or lacks a required field."""


class CorruptLedgerError(CorruptObjectError):
    """A data object contradicts its index, its records or their checksums."""


class MissingLedgerError(LedgerfsError):
    """Ledgers of a topic are missing, as other objects of the bucket show; otherwise the topic would look complete."""

    exit_code = 1


class UnplacedLedgersWarning(UserWarning):
    """A bucket has ledgers of unknown topic, or unlistable folders: topics may lack ledgers."""


class UnreadableObjectsWarning(UserWarning):
    """Objects that the store refuses were skipped because of ``on_unreadable="skip"``: topics and ledgers may be missing."""


class NamedSchemasWarning(UserWarning):
    """Imported rows contain schema versions: readers will decode their values with the new topic's schemas of these versions."""


class CorruptMessageError(CorruptObjectError):
    """An entry that is not a valid message; the error contains ``ledger:entry``."""

    @classmethod
    def of(cls, ledger_id: int, entry_id: int, reason: str) -> "CorruptMessageError":
        """Return the error for one entry."""
        return cls(reason, key=f"entry {ledger_id}:{entry_id}")


class UnknownSchemaError(LedgerfsError):
    """The schema of a topic, or its requested version, is unknown."""

    code = errno.ENOENT


class UndecodableValueError(LedgerfsError):
    """A message whose value does not match its schema, or whose schema is unknown; the error contains ``ledger:entry``."""

    exit_code = 1

    @classmethod
    def of(cls, message: str, reason: str) -> "UndecodableValueError":
        """Return the error for one message."""
        return cls(
            f"{reason}; on_undecodable='null' or 'skip' (--on-undecodable) reads the rest",
            key=f"value of message {message}",
        )


class MessageTooLargeError(LedgerfsError):
    """A message larger than the reader's limit, without other damage as far as it was read; an option raises the limit."""

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
    """A known format that ledgerfs does not read, such as PIP-76 streaming objects (V2)."""

    code = errno.ENOTSUP
    exit_code = 1


class KafkaEntryError(UnsupportedFormatError):
    """An undamaged entry of Kafka on Pulsar (KoP) in Kafka's format (``entry.format=kafka``); the error contains ``ledger:entry``."""

    @classmethod
    def of(cls, ledger_id: int, entry_id: int, reason: str) -> "KafkaEntryError":
        """Return the error for one entry."""
        return cls(
            f'{reason}; on_corrupt="skip" (--on-corrupt skip) reads the rest', key=f"entry {ledger_id}:{entry_id}"
        )


class StaleObjectError(LedgerfsError):
    """The object was replaced after it was opened; open it again to read the new one."""

    code = errno.ESTALE
    exit_code = 1


class NotFoundError(LedgerfsError, FileNotFoundError):
    """No such bucket, object, topic, ledger or path."""

    code = errno.ENOENT


class BucketNotFoundError(NotFoundError):
    """The bucket, or the folder in it, does not exist."""

    exit_code = 3


class ObjectNotFoundError(NotFoundError):
    """An object of the bucket's listing or of an index does not exist."""

    exit_code = 1


class AccessDeniedError(LedgerfsError, PermissionError):
    """The store refused the request: credentials are missing, wrong, or lack the permission."""

    code = errno.EACCES
    exit_code = 3


class ArchivedObjectError(AccessDeniedError):
    """The object is in an archive (Glacier, Deep Archive, Azure's archive tier): it must be restored before it can be read."""


class ExpiredCredentialsError(AccessDeniedError):
    """The session token has expired, and the store refuses the machine's current credentials, too."""


class AuthenticationError(AccessDeniedError):
    """A broker did not authenticate the client: a token is missing, wrong or expired."""


class StoreError(LedgerfsError):
    """The store answered with an error, or with a body of the wrong length, even after retries."""

    exit_code = 3


class WrongBodyError(StoreError):
    """The store sent other bytes than requested."""


class StoreUnreachableError(StoreError):
    """The store could not be reached at all."""

    code = errno.EHOSTUNREACH


class StoreTimeoutError(StoreUnreachableError):
    """The store did not answer in time."""

    code = errno.ETIMEDOUT


class UncertainWriteError(StoreError):
    """It is unknown whether a write succeeded: the store failed during it and does not answer."""


class ObjectExistsError(LedgerfsError, FileExistsError):
    """The object already exists; objects are never overwritten."""

    code = errno.EEXIST


class LedgerExistsError(ObjectExistsError):
    """The bucket already has a ledger of this id."""


class RefusedLedgerError(LedgerfsError):
    """Entries that cannot become a ledger for a broker: none at all, gaps between them, one larger than a block."""

    code = errno.EINVAL


class InvalidRowsError(LedgerfsError):
    """Rows, or a file of rows, that cannot be written as messages."""

    code = errno.EINVAL

    @classmethod
    def of(cls, row: int, reason: str) -> "InvalidRowsError":
        """Return the error for a row; rows count from 0 across all given tables."""
        return cls(reason, key=f"row {row}")


class InvalidSchemaError(LedgerfsError):
    """The schema of values does not match its type, or cannot be used to read values."""

    code = errno.EINVAL


class CorruptSchemaFileError(CorruptObjectError):
    """An object among the saved schemas is torn, damaged, or not written by ledgerfs."""


class SchemaConflictError(LedgerfsError):
    """A schema version of a topic has different schemas: from two clusters saved in one place, or the one for rows to write."""

    code = errno.EEXIST


class UnsupportedWriteError(LedgerfsError):
    """A write that this store, or ledgerfs, does not support."""

    code = errno.ENOTSUP


class CacheWriteError(LedgerfsError):
    """A materialized file cannot be written to the cache folder, usually since that is full."""

    code = errno.ENOSPC


class ExportFolderError(LedgerfsError):
    """The folder of an export cannot be written, is in use by another export or import, or may lack rows to import."""

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
        The result for each ledger (`ledgerfs.writing.copy_ledgers.CopyReport`); None in another process.

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
    """The path of a requested file is a directory."""

    code = errno.EISDIR


class NotADirectoryPathError(LedgerfsError, NotADirectoryError):
    """The path of a requested directory is a file."""

    code = errno.ENOTDIR


class NameTooLongError(LedgerfsError):
    """A file was not copied, since its name is too long for the local file system."""

    code = errno.ENAMETOOLONG


class EntryRangeError(LedgerfsError):
    """Requested entries are not in the ledger."""

    code = errno.EINVAL


class InvalidNameError(LedgerfsError):
    """A name (of a topic, managed ledger, ledger or message) that Pulsar rejects, or that a new ledger must not have."""

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
    """The system refuses to mount, or lacks a requirement for it."""

    code = errno.EINVAL


class MountError(OSError):
    """An answer to the kernel: only an errno."""


class DecompressionError(ValueError):
    """A payload whose decompression does not match its metadata; the caller adds the entry's name."""


class LineError(ValueError):
    """A line that is not a valid message; the caller adds the file's name."""

    def __init__(self, line: int, reason: object) -> None:
        super().__init__(f"line {line}: {reason}")
