"""Open the files of a folder that is a bucket: regular files only, and links only with an option.

Otherwise any user with write access to the folder could expose any file of the machine through a link.
"""

import errno
import os
from stat import S_ISLNK, S_ISREG

from ledgerfs.errors import AccessDeniedError, StoreError
from ledgerfs.storage.objects import ObjectStat

FOLLOW_LINKS = "follow_links"
"""The storage option that allows links."""

LINK_REFUSED = f"a symbolic link out of the bucket's folder is not followed; set the storage option {FOLLOW_LINKS}=true to follow it"

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
_FOLDER_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY | os.O_NOFOLLOW
_IS_LINK = frozenset({errno.ELOOP, errno.ENOTDIR, errno.EMLINK})
"""Errors of the kernel for links if the flags forbid to follow them."""


def open_object(root: str, key: str, *, follow_links: bool) -> tuple[int, os.stat_result]:
    """Open a regular file for reading; return its descriptor and status.

    The folder itself may be a link, since the user named it. Raises `AccessDeniedError` for anything else than a regular file, `StoreError`
    for a followed link that leads nowhere, and `OSError`.
    """
    descriptor = _open_followed(f"{root}/{key}", key) if follow_links else _open_beneath(root, key)
    try:
        stat = os.fstat(descriptor)
        if not S_ISREG(stat.st_mode):
            raise AccessDeniedError("not a regular file; folders, pipes and devices are not opened", key=key)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, stat


def stat_object(root: str, key: str, *, follow_links: bool) -> os.stat_result:
    """Return the status of a file of any kind except a link; raises as `open_object`."""
    if follow_links:
        return _stat_followed(f"{root}/{key}", key)
    parent, name = _parent_of(root, key)
    try:
        found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    finally:
        if parent is not None:
            os.close(parent)
    if S_ISLNK(found.st_mode):
        raise _refused(key)
    return found


def stat_of_file(key: str, stat: os.stat_result) -> ObjectStat:
    """Return a file as an object."""
    return ObjectStat(key, stat.st_size, stat.st_mtime_ns // 1_000_000, version_of_file(stat))


def version_of_file(stat: os.stat_result) -> str:
    """Return a text that changes when the file is replaced or written to."""
    return f"{stat.st_ino:x}-{stat.st_mtime_ns:x}-{stat.st_size:x}"


def _refused(key: str) -> AccessDeniedError:
    """Return the error for an object that is a link, or in a folder that is a link."""
    return AccessDeniedError(LINK_REFUSED, key=key)


def _open_followed(path: str, key: str) -> int:
    try:
        return os.open(path, _FLAGS)
    except FileNotFoundError as error:
        raise _not_there(path, key, error) from error


def _stat_followed(path: str, key: str) -> os.stat_result:
    try:
        return os.stat(path)  # noqa: PTH116  (a hot path)
    except FileNotFoundError as error:
        raise _not_there(path, key, error) from error


def _not_there(path: str, key: str, error: FileNotFoundError) -> OSError:
    """Return the error for a missing file; a link that leads nowhere exists, so its object was not deleted."""
    return StoreError("a symbolic link without a target", key=key) if os.path.islink(path) else error  # noqa: PTH114  (a text)


def _open_beneath(root: str, key: str) -> int:
    parent, name = _parent_of(root, key)
    try:
        return os.open(name, _FLAGS | os.O_NOFOLLOW, dir_fd=parent)
    except OSError as error:
        if error.errno in _IS_LINK:
            raise _refused(key) from error
        raise
    finally:
        if parent is not None:
            os.close(parent)


def _parent_of(root: str, key: str) -> tuple[int | None, str]:
    """Return a descriptor of a key's folder, and the file's name in it; for a key without folders, None and the whole path."""
    *folders, name = key.split("/")
    if not folders:
        return None, f"{root}/{name}"
    descriptor = os.open(root, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    for folder in folders:
        above = descriptor
        try:
            descriptor = os.open(folder, _FOLDER_FLAGS, dir_fd=above)
        except OSError as error:
            if error.errno not in _IS_LINK:
                raise
            is_link = S_ISLNK(os.stat(folder, dir_fd=above, follow_symlinks=False).st_mode)
            raise (
                _refused(key) if is_link else FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), key)
            ) from error
        finally:
            os.close(above)
    return descriptor, name
