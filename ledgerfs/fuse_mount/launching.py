"""Starting a mount: here, or in a process of its own that is waited for until the mount answers."""

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


def mount_in_background(request: MountRequest) -> int:
    """Start the process that serves a mount, and return the number of its ledgers when the mount answers.

    Raises `LedgerfsError`, and whatever ends the waiting, such as Ctrl-C; then neither process nor mount is left.
    """
    # -P: a folder named ledgerfs where the user happens to be is not our package. The rest is for whoever looks at `ps`.
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
                raise MountFailedError("the mount was gone at once", key=request.mountpoint)
        except BaseException:
            _end(process, request.mountpoint)
            raise
    # It goes on by itself.
    process.returncode = 0
    return int(answer["ledgers"])


def _answer_of(process: subprocess.Popen[bytes], request: MountRequest) -> dict[str, Any] | None:
    """Hand the request over, and return the line that comes back; None from a process that died."""
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
    last = said.strip().splitlines()[-1:] or ["it said nothing"]
    return MountFailedError(f"the process that was to serve the mount ended with {code}: {last[0]}")


def _rebuilt(answer: dict[str, Any]) -> LedgerfsError:
    """Return the error as the other process had it, so that the exit code is the same as if it had come up here."""
    ours = {"MountFailedError": MountFailedError, "MountpointError": MountpointError}
    kind: type[LedgerfsError] = {**vars(ledgerfs.errors), **ours}[answer["kind"]]
    return kind(answer["reason"], key=answer["key"], offset=answer["offset"])
