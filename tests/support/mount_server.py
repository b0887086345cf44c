"""The process that serves a mount, of `tests.support.mounts` or of the command, forked from one that has all of this."""

import json
import logging
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from ledgerfs.bucket.opening import open_bucket
from ledgerfs.fuse_mount import binding, daemon
from ledgerfs.fuse_mount.operations import MountedBucket, MountOptions
from ledgerfs.storage.s3.obstore_client import ObstoreClient
from tests.support.matrix import small_parts
from tests.support.tries import without_pauses


def serve_as_command() -> None:
    """Serve a mount as the process does that the command starts."""
    os.setsid()
    sys.exit(daemon.main())


def serve() -> None:
    """Serve the mount that the only argument describes, in a session of its own."""
    os.setsid()
    asked = json.loads(sys.argv[1])
    patch = pytest.MonkeyPatch()
    for name, value in asked["constants"].items():
        patch.setattr(name, value)
    if asked["is_faulty"]:
        without_pauses(patch)
        _note_clients(patch)
    if asked["parts"]:
        small_parts(patch)
        # The kernel asks again for what failed, and a busy machine lets it do so late.
        patch.setattr("ledgerfs.fuse_mount.error_numbers._SILENT_SECONDS", 3600)
    logging.basicConfig(filename=asked["log"], format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    bucket = open_bucket(
        asked["url"], asked["storage_options"], cache_dir=asked["cache_dir"], scan_options=asked["scan_options"]
    )
    made = MountedBucket(bucket, MountOptions(**asked["options"]))
    threading.Thread(target=_answer, args=(made, bucket), daemon=True).start()
    binding.serve(made, asked["path"], asked["url"], asked["fuse"])


_clients: list[Any] = []


def _note_clients(patch: pytest.MonkeyPatch) -> None:
    """Remember the clients of S3, of which each keeps the time-out that it was made with."""
    make = ObstoreClient.__init__

    def make_and_note(client: Any, *arguments: Any) -> None:
        make(client, *arguments)
        _clients.append(client)

    patch.setattr(ObstoreClient, "__init__", make_and_note)


def _answer(made: Any, bucket: Any) -> None:
    constants, patience = pytest.MonkeyPatch(), pytest.MonkeyPatch()
    for line in sys.stdin:
        what, _, value = line.strip().partition(" ")
        if what == "refresh":
            made.refresh()
        elif what == "patience":
            patience.undo()
            if value:
                without_pauses(patience, bound_s=0.5, patience_s=float(value))
            for client in _clients:
                client.forget()
        elif what == "constants":
            constants.undo()
            for name, one in json.loads(value).items():
                constants.setattr(name, one)
        traffic = bucket.stats()
        reported = {
            "requests": traffic.requests,
            "bytes": traffic.bytes_received,
            "open": sorted(one.path for one in list(made._open.values())),
            "threads": threading.active_count(),
            "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        }
        print(json.dumps(reported), flush=True)
