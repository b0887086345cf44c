"""The process that serves a mount: ``python -P -m ledgerfs.fuse_mount.daemon`` with a `MountRequest` on standard input.

`ledgerfs.fuse_mount.launching` starts it instead of forking, so it has only its own threads. It sends the request through a private pipe,
and waits for one line on standard output: that the mount answers, or the reason why it failed.
"""

import json
import logging
import os
import sys

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.catalog.missing_ledgers import refused_text
from ledgerfs.errors import LedgerfsError
from ledgerfs.fuse_mount.mount_log import log_to_file
from ledgerfs.fuse_mount.mount_request import MountRequest
from ledgerfs.fuse_mount.serving import serve_bucket
from ledgerfs.storage.credentials import without_credentials

logger = logging.getLogger("ledgerfs.mount")


def main() -> int:
    """Serve one mount; returns the exit code."""
    request = MountRequest.from_json(sys.stdin.read())
    is_reported = False

    def tell_ready(bucket: Bucket) -> None:
        nonlocal is_reported
        _tell({"notice": _notice_of(bucket, request)})
        is_reported = True
        _leave_terminal(log)

    log = os.devnull
    try:
        log = str(log_to_file(request))
        serve_bucket(request, tell_ready)
    except LedgerfsError as error:
        if is_reported:
            logger.error("%s", error)  # noqa: TRY400  (ledgerfs errors need no traceback)
        else:
            _tell(_described(error))
        return 1
    except BrokenPipeError:
        logger.warning("not mounted: the mount command has exited")
        return 1
    except Exception as error:
        logger.exception("a bug in ledgerfs")
        if not is_reported:
            _tell(_described(LedgerfsError(f"a bug in ledgerfs ({without_credentials(repr(error))}); see {log}")))
        return 1
    return 0


def _notice_of(bucket: Bucket, request: MountRequest) -> str:
    """Return why the mount shows less than its user expects, or an empty text."""
    refused = bucket.catalog.refused()
    if refused:
        return f"mounted; {refused_text(bucket.url, refused)}"
    has_ledgers = any(topic.ledgers for topic in bucket.topics())
    return "" if has_ledgers else f"{request.shown_url}: mounted; the bucket has no offloaded ledgers"


def _tell(what: dict[str, object]) -> None:
    """Write the line that `launching` waits for. Raises `BrokenPipeError` if it has stopped waiting, so the mount must end."""
    os.write(1, json.dumps(what).encode() + b"\n")


def _described(error: LedgerfsError) -> dict[str, object]:
    said = _said_by_libfuse()
    reason = f"{error.reason}: {said}" if said else error.reason
    return {"kind": type(error).__name__, "reason": reason, "key": error.key, "offset": error.offset}


def _said_by_libfuse() -> str:
    """Return the text on standard error, a file from `launching`: libfuse prints its reasons only there."""
    try:
        lines = os.pread(2, 4000, 0).decode(errors="replace").splitlines()
    except OSError:
        return ""
    return " ".join(line.strip() for line in lines)


def _leave_terminal(log: str) -> None:
    """Close the pipe and all other inherited streams; redirect messages of C libraries to the log."""
    nothing = os.open(os.devnull, os.O_RDWR)
    errors = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.dup2(errors, 2)
    os.close(nothing)
    os.close(errors)


if __name__ == "__main__":
    sys.exit(main())
