"""The folder of cached files, and its bound."""

import atexit
import fcntl
import logging
import os
import shutil
import tempfile
from pathlib import Path

from ledgerfs.cache.untrusted_folders import open_in_own_folder, require_own_folder
from ledgerfs.errors import CacheWriteError, InvalidOptionError
from ledgerfs.forked import ForkLock, run_in_child
from ledgerfs.formats.local_paths import local_path

_LOG = logging.getLogger("ledgerfs.cache")
_MAX_BYTES = 10 << 30
_OTHERS_WRITE = 0o022
_FOLDER_VARIABLE = "LEDGERFS_CACHE_DIR"
_BYTES_VARIABLE = "LEDGERFS_DISK_CACHE_BYTES"


class CacheFolder:
    """A private folder, created with the first write; if that fails, a temporary one replaces it.

    Parameters
    ----------
    path
        The folder; only its owner can read it.
    max_bytes
        Most bytes in the folder; None for ``$LEDGERFS_DISK_CACHE_BYTES``, by default 10 GiB.

    """

    __slots__ = ("_has_warned", "_is_usable", "_lock", "_max_bytes", "path")

    def __init__(self, path: Path, max_bytes: int | None = None) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._is_usable = False
        self._has_warned = False
        self._lock = ForkLock()

    def open_file(self, name: str) -> int | None:
        """Return a descriptor to read an existing file; None if it is missing or not trusted, which is logged once."""
        try:
            return open_in_own_folder(self.path, name)
        except FileNotFoundError:
            return None
        except PermissionError as error:
            self._distrust(error)
            return None
        except OSError as error:
            _LOG.info("%s cannot be read: %s", self.path / name, error)
            return None

    def make(self) -> Path:
        """Create the folder if needed and return it, writable; raises `CacheWriteError`."""
        with self._lock:
            if self._is_usable and _is_own(self.path):
                return self.path
            try:
                _prepare(self.path)
            except OSError as error:
                self.path = self._temporary(error)
            self._is_usable = True
            return self.path

    def require(self) -> Path:
        """Return the folder as `make` does, but never a temporary one; raises `OSError`."""
        with self._lock:
            if not (self._is_usable and _is_own(self.path)):
                try:
                    _prepare(self.path)
                except PermissionError as error:
                    self._distrust(error)
                    raise
                self._is_usable = True
            return self.path

    @property
    def max_bytes(self) -> int:
        """Most bytes in the folder; raises `InvalidOptionError` for an invalid ``$LEDGERFS_DISK_CACHE_BYTES``."""
        if self._max_bytes is None:
            self._max_bytes = _bytes_of_environment()
        return self._max_bytes

    def _distrust(self, error: OSError) -> None:
        if not self._has_warned:
            self._has_warned = True
            _LOG.warning("the cache folder %s is not used: %s: %s", self.path, error.filename, error.strerror)

    def _temporary(self, error: OSError) -> Path:
        """Return a temporary folder for this process only."""
        try:
            path = Path(tempfile.mkdtemp(prefix="ledgerfs-"))
        except OSError:
            raise CacheWriteError(f"{error}; choose a writable cache folder with {HINT}") from error
        _temporary.add(path)
        _LOG.warning(
            "the cache folder %s cannot be used (%s); this process caches files in %s until it exits",
            self.path,
            error,
            path,
        )
        return path


HINT = "cache_dir= or $LEDGERFS_CACHE_DIR"
"""The options that set the folder, for error messages."""


def cache_folder(name: str, cache_dir: str | None = None) -> CacheFolder:
    """Return the folder ``name`` in ``cache_dir``, or ``$LEDGERFS_CACHE_DIR``, ``$XDG_CACHE_HOME/ledgerfs``, ``~/.cache/ledgerfs``.

    If other users may write there, as to ``/tmp``, each user has a separate folder: ``name`` followed by the user's number.
    Raises `InvalidOptionError` for anything except a local path.
    """
    given = folder_of_environment() if cache_dir is None else local_path(cache_dir, "cache_dir").absolute()
    root = _users_cache() / "ledgerfs" if given is None else given
    return CacheFolder(root / (f"{name}-{os.geteuid()}" if _is_shared(root) else name))


def folder_of_environment() -> Path | None:
    """Return the folder in ``$LEDGERFS_CACHE_DIR``, None if it is unset or empty; raises `InvalidOptionError`."""
    text = os.environ.get(_FOLDER_VARIABLE)
    return local_path(text, _FOLDER_VARIABLE).absolute() if text else None


def _is_shared(root: Path) -> bool:
    try:
        return bool(root.stat().st_mode & _OTHERS_WRITE)
    except OSError:
        # Either it does not exist and `make` will create it for this user only, or it is unusable.
        return False


def _users_cache() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The specification of XDG_CACHE_HOME requires to ignore relative paths.
    if cache.is_absolute():
        return cache
    try:
        return Path("~/.cache").expanduser()
    except RuntimeError:
        # The user has no home, as in containers: `make` will use a temporary folder.
        return Path("~/.cache")


def _prepare(path: Path) -> None:
    """Create the folder; check that this user owns it and can write and lock files in it; raises `OSError`."""
    if not path.is_absolute():
        raise FileNotFoundError("the user has no home folder")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.mkdir(mode=0o700, exist_ok=True)
    # Cached bytes may be secret, and files of other users must not be trusted.
    require_own_folder(path)
    with tempfile.TemporaryFile(dir=path) as probe:
        fcntl.flock(probe, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _is_own(path: Path) -> bool:
    try:
        require_own_folder(path)
    except OSError:
        return False
    return True


def _bytes_of_environment() -> int:
    text = os.environ.get(_BYTES_VARIABLE)
    if not text:
        return _MAX_BYTES
    if not text.isdecimal():
        raise InvalidOptionError("expected a number of bytes", key=f"{_BYTES_VARIABLE}={text}")
    return int(text)


_temporary: set[Path] = set()
"""Folders to remove when the process exits; a forked child does not remove those of its parent."""

run_in_child(_temporary.clear)


@atexit.register
def _remove_temporary() -> None:
    for path in _temporary:
        shutil.rmtree(path, ignore_errors=True)
