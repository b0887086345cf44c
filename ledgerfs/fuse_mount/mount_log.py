"""The log of a mount: a file, or standard error; one line for each error."""

import logging
import os
import re
from logging.handlers import RotatingFileHandler, WatchedFileHandler
from pathlib import Path

from ledgerfs.cache.cache_folder import cache_folder
from ledgerfs.cache.untrusted_folders import require_no_others_link
from ledgerfs.errors import LedgerfsError, MountFailedError
from ledgerfs.fuse_mount.mount_request import MountRequest
from ledgerfs.storage.credentials import without_credentials

_LARGEST = 8 << 20


class OneLine(logging.Formatter):
    """Escapes characters that would forge a line or control a terminal, and removes text that resembles credentials."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  (logging's name)
        """Return the line; `logging` appends a traceback if there is one."""
        text = without_credentials(super().formatMessage(record))
        return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def log_path(request: MountRequest) -> Path:
    """Return the mount's log file, from the request or in the cache folder."""
    if request.log_file is not None:
        return Path(request.log_file)
    name = re.sub(r"[^\w.-]+", "-", request.mountpoint).strip("-") or "root"
    return cache_folder("mounts", request.cache_dir).make() / f"{name}.log"


def log_to_file(request: MountRequest) -> Path:
    """Log to the mount's file from now on; the file in the cache folder stays small. Raises `MountFailedError`."""
    try:
        path = log_path(request)
        if request.log_file is None:
            handler: logging.Handler = RotatingFileHandler(path, maxBytes=_LARGEST, backupCount=1, errors="replace")
        else:
            require_no_others_link(path)
            handler = WatchedFileHandler(path, errors="replace")
    except LedgerfsError:
        raise
    except OSError as error:
        raise MountFailedError(f"cannot write the log: {error.strerror}", key=request.log_file) from error
    _log_with(handler, request)
    return path


def log_to_standard_error(request: MountRequest) -> None:
    """Log to standard error from now on; systemd stores that log and adds times."""
    _log_with(logging.StreamHandler(), request)


def _log_with(handler: logging.Handler, request: MountRequest) -> None:
    is_kept_elsewhere = "JOURNAL_STREAM" in os.environ and type(handler) is logging.StreamHandler
    time = "" if is_kept_elsewhere else "%(asctime)s "
    handler.setFormatter(OneLine(f"{time}%(levelname)s %(name)s: %(message)s"))
    logging.getLogger().addHandler(handler)
    logging.getLogger("ledgerfs.mount").setLevel(logging.INFO)
    if request.trace:
        logging.getLogger("ledgerfs.store").setLevel(logging.DEBUG)
