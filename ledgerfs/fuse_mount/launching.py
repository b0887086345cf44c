"""Start the process that serves a mount, and wait until the mount answers."""

import json
import subprocess
import sys
import tempfile
from typing import Any

import ledgerfs.errors
from ledgerfs.errors import LedgerfsError, MountFailedError, MountpointError
from ledgerfs.fuse_mount.mount_request import MountRequest
from ledgerfs.fuse_mount.mountpoint import mounted_at
from ledgerfs.fuse_mount.unmounting import clear_if_dead

_DAEMON = "ledgerfs.fuse_mount.daemon"
_END_SECONDS = 20


def mount_in_background(request: MountRequest) -> str:
    """Start the process that serves a mount, and return its notice when the mount answers, empty if the mount shows everything.

    Raises `LedgerfsError`, and exceptions that interrupt the wait, such as Ctrl-C; then it removes process and mount.
    """
    # -P: ignore a folder ledgerfs in the current folder. The two arguments are only for `ps`.
    command = [sys.executable, "-P", "-m", _DAEMON, request.shown_url, request.mountpoint]
    with tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(  # noqa: S603  (no shell)
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
            )
        except OSError as error:
            raise MountFailedError(f"cannot start {sys.executable}: {error.strerror}") from error
        try:
            answer = _answer_of(process, request)
            if answer is None:
                process.wait()
                errors.seek(0)
                raise _died(process.returncode, errors.read().decode(errors="replace"))
            if "kind" in answer:
                raise _rebuilt(answer)
            if mounted_at(request.mountpoint) is None:
                raise MountFailedError("the mount disappeared immediately; see the log", key=request.mountpoint)
        except BaseException:
            _end(process, request.mountpoint)
            raise
    # The process goes on without a parent that waits; this avoids a ResourceWarning.
    process.returncode = 0
    return str(answer["notice"])


def _answer_of(process: subprocess.Popen[bytes], request: MountRequest) -> dict[str, Any] | None:
    """Send the request, and return the answer; None if the process died."""
    if process.stdin is None or process.stdout is None:
        raise AssertionError("both are pipes")
    try:
        with process.stdin as pipe:
            pipe.write(request.as_json().encode())
    except BrokenPipeError:
        return None
    with process.stdout as pipe:
        line = pipe.readline()
    return json.loads(line) if line.endswith(b"\n") else None


def _end(process: subprocess.Popen[bytes], mountpoint: str) -> None:
    process.terminate()
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    clear_if_dead(mountpoint)


def _died(code: int, said: str) -> MountFailedError:
    last = said.strip().splitlines()[-1:] or ["it printed nothing"]
    return MountFailedError(f"the process of the mount exited with code {code}: {last[0]}")


def _rebuilt(answer: dict[str, Any]) -> LedgerfsError:
    """Return the error of the other process with its class, so that the exit code is the same as without a process."""
    ours = {"MountFailedError": MountFailedError, "MountpointError": MountpointError}
    kind: type[LedgerfsError] = {**vars(ledgerfs.errors), **ours}[answer["kind"]]
    return kind(answer["reason"], key=answer["key"], offset=answer["offset"])
