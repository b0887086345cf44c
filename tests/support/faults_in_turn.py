"""One fault at each request of an operation in turn, once or from there on: what comes of it is the right outcome, or our error."""

import itertools
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pytest

from ledgerfs import Bucket, open_bucket
from ledgerfs.cache.block_cache import process_cache
from ledgerfs.errors import LedgerfsError
from ledgerfs.fsspec_impl import LedgerFileSystem
from tests.support.invoked import run
from tests.support.lacking import OTHER_NAME, TOPIC, ledger
from tests.support.ledgers import NAME, put_in_folder
from tests.support.mapfile_buckets import mapfile, messages
from tests.support.odd_s3 import OddS3, Refusal, Request

URL = "s3://tier"
IN_MAPFILES = "persistent://public/default/shipments"
MESSAGES = 20
MOST_REQUESTS = 400
"""Operations on this bucket make at most a hundred; one that makes more never ends."""
EVERY_FAULT = "LEDGERFS_EVERY_FAULT" in os.environ


@dataclass(frozen=True, slots=True)
class FaultKind:
    """A way in which a store fails: the quirks of `OddS3` that an answer has, and which requests can have such an answer."""

    name: str
    quirks: Mapping[str, Any]
    can_meet: Callable[[Request], bool] = lambda request: True


def _refusal(status: int, code: str, storage_class: str = "") -> dict[str, Any]:
    return {"refuses": lambda _: Refusal(status, code, f"{code} of this test.", storage_class)}


def _is_listing(request: Request) -> bool:
    return "list-type" in request.query


def _is_get(request: Request) -> bool:
    return request.method == "GET"


def _is_read(request: Request) -> bool:
    return request.method == "GET" and request.key != ""


KINDS = (
    FaultKind("denied", _refusal(403, "AccessDenied")),
    # The store answers HEAD of an archived object.
    FaultKind("archived", _refusal(403, "InvalidObjectState", "GLACIER"), _is_read),
    FaultKind("expired", _refusal(400, "ExpiredToken")),
    FaultKind("the same token", {"tokens": "same"}, _is_listing),
    FaultKind("no token", {"tokens": "none"}, _is_listing),
    FaultKind("keys twice", {"lists_twice": True}, _is_listing),
    FaultKind("broken body", {"body": "broken"}, _is_get),
    FaultKind("half a body", {"body": "half"}, _is_get),
)


@dataclass(slots=True)
class FaultAt:
    """A fault at the n-th request of an operation, counted from 1, or at the next one that it can meet; or at all of these."""

    kind: FaultKind
    number: int
    is_lasting: bool
    requests: int = 0
    was_met: bool = False

    def __str__(self) -> str:
        return f"{self.kind.name}, request {self.number}{' and those after it' if self.is_lasting else ''}"

    def changes(self, request: Request) -> Mapping[str, Any]:
        """Return the quirks of the answer to a request."""
        self.requests += 1
        if self.requests > MOST_REQUESTS:
            return _refusal(405, "NeverEnds")
        is_due = self.requests >= self.number and (self.is_lasting or not self.was_met)
        if not (is_due and self.kind.can_meet(request)):
            return {}
        self.was_met = True
        return self.kind.quirks


def faults_of(requests: Sequence[Request], offset: int) -> Iterator[FaultAt]:
    """Yield a fault for every second request in turn: the kinds that can meet it take turns, once and lasting ones, too.

    Operations begin alike, so that with another ``offset`` for each of them each kind comes to each request.
    ``LEDGERFS_EVERY_FAULT=1``: each kind at each request, once and lasting.
    """
    for number, request in enumerate(requests, 1):
        kinds = [kind for kind in KINDS if kind.can_meet(request)]
        turn, is_odd = divmod(number + offset, 2)
        if EVERY_FAULT or len(requests) < 5:
            yield from (FaultAt(kind, number, is_lasting) for kind in kinds for is_lasting in (False, True))
        elif not is_odd:
            yield FaultAt(kinds[turn % len(kinds)], number, is_lasting=turn // len(kinds) % 2 == 1)


class FaultyBucket:
    """A bucket of two layouts, five ledgers, three topics and a schema, on an `OddS3` whose faults are set."""

    def __init__(self, odd: OddS3, folder: Path) -> None:
        self.odd = odd
        self.objects = dict(odd.objects)
        self.out = folder / "out"
        self._caches = (folder / f"cache-{number}" for number in itertools.count())

    @classmethod
    @contextmanager
    def started(cls, folder: Path) -> Iterator[Self]:
        """Make the bucket and serve it."""
        objects: dict[str, bytes] = {"notes/foreign.txt": b"of a backup"}
        metadata: dict[str, dict[str, str]] = {}
        for number, name in ((1, NAME), (2, NAME), (3, OTHER_NAME)):
            made = ledger(number, messages=MESSAGES, name=name)
            objects |= made.objects
            of_offload = {"s3managedledgeroffloaderformatversion": "1", "managedledgername": name}
            metadata |= dict.fromkeys(made.objects, of_offload)
        local = folder / "bucket"
        local.mkdir(parents=True)
        put_in_folder(local, ledger(1, messages=MESSAGES))
        run("schemas", "set", str(local), TOPIC, "--type", "string")
        objects |= {str(path.relative_to(local)): path.read_bytes() for path in local.rglob("*") if path.is_file()}
        for number in (4, 5):
            objects |= mapfile(messages(number, MESSAGES), number, name="public/default/persistent/shipments").objects
        with OddS3(objects, metadata, page_size=3) as odd:
            yield cls(odd, folder)

    def command(self, *arguments: str) -> bytes:
        """Run a command, and return its output; raise `LedgerfsError` if it exits with the code of an error."""
        named = (str(self.out) if one == "OUT" else URL if one == "BUCKET" else one for one in arguments)
        done = run(*named, *(f"-o{name}={value}" for name, value in self.odd.options.items()), code=None)
        if done.returncode == 0:
            return done.stdout
        # What was not seen is not damaged.
        codes = {3} if arguments[0] in {"verify", "repair"} else {1, 3}
        assert done.returncode in codes, (done.returncode, done.stderr.decode(), done.stdout[-500:])
        assert done.stderr or done.returncode == 3
        raise LedgerfsError(done.stderr.decode())

    def open(self) -> Bucket:
        return open_bucket(URL, self.odd.options)

    def files(self) -> LedgerFileSystem:
        """Return the bucket's files, with a catalog of their own."""
        made = LedgerFileSystem(fo=URL, target_options=self.odd.options, skip_instance_cache=True)
        made.bucket = self.open()
        return made

    def clean(self, patch: pytest.MonkeyPatch) -> None:
        """Restore the bucket, and forget what was read and written."""
        process_cache.clear()
        self.odd.objects.clear()
        self.odd.objects.update(self.objects)
        shutil.rmtree(self.out, ignore_errors=True)
        patch.setenv("LEDGERFS_CACHE_DIR", str(next(self._caches)))

    def requests_of(self, operation: "Operation", patch: pytest.MonkeyPatch) -> tuple[Any, list[Request]]:
        """Return what an operation returns without faults, and its requests."""
        self.clean(patch)
        self.odd.seen.clear()
        return operation(self), list(self.odd.seen)

    def meet(self, operation: "Operation", fault: FaultAt, patch: pytest.MonkeyPatch) -> Any:
        """Return what an operation returns with a fault, or our error."""
        self.clean(patch)
        self.odd.changes = fault.changes
        try:
            return operation(self)
        except LedgerfsError as error:
            return error
        finally:
            self.odd.changes = lambda request: {}


Operation = Callable[[FaultyBucket], Any]
"""One way to use a bucket; returns a value that compares, or raises our error."""
