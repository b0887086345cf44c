"""The fault matrix: a bucket that can be replaced and deleted, the ways to read it, and what may come of a fault."""

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import fsspec
import pytest

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.errors import CorruptMessageError, LedgerfsError, NotFoundError, StaleObjectError
from ledgerfs.fsspec_impl import LedgerFileSystem
from ledgerfs.layouts.pulsar_blob.fragments import fragments_of
from ledgerfs.storage.object_store import RawStore
from ledgerfs.storage.opening import open_store
from ledgerfs.verification import Severity, verify
from tests.support.entries import frame, metadata
from tests.support.ledgers import CREATED_MS, Offload, offload
from tests.support.s3 import Fault, FaultProxy, S3Server
from tests.support.waiting import wait_until

TOPIC = "public/default/orders"
ENTRIES = 60
WANTED = 31
SECONDS = 6.0
"""``LEDGERFS_STORE_TIMEOUT`` where faults stay: a quarter of it is how long a store may be silent, and `FaultProxy` is slow for 0.3 s."""

MOST_SECONDS = 1200.0

Outcome = Any
"""What a read gave, as values that compare; for a verification, its report."""


def small_parts(patch: pytest.MonkeyPatch) -> None:
    """Cut what is read into so small parts that little ledgers take many requests."""
    patch.setattr("ledgerfs.cache.read_ahead.PART_BYTES", 32 << 10)
    patch.setattr("ledgerfs.cache.read_ahead._FIRST_PARTS", (8 << 10, 16 << 10))
    patch.setattr("ledgerfs.layouts.pulsar_blob.reader.NEAR", 16 << 10)
    patch.setattr("ledgerfs.layouts.pulsar_blob.entry_places._SMALLEST_READ", 8 << 10)


def make_ledger(ledger_id: int, version: int = 0, *, entries: int = ENTRIES, created_ms: int = CREATED_MS) -> Offload:
    """Return a ledger, of three blocks with so many entries; all versions of it have the same sizes, and no entry in common."""
    source = random.Random(1000 * version + ledger_id)
    made = [
        frame(
            metadata(sequence_id=i, publish_time_ms=CREATED_MS + i), b"%4d" % version + source.randbytes(900 + i * 17)
        )
        for i in range(entries)
    ]
    return offload(made, ledger_id, uuid=ledger_id, block_size=36 << 10, created_ms=created_ms)


FIRST: dict[int, Offload | None] = {1: make_ledger(1), 2: make_ledger(2, entries=9)}


@dataclass
class World:
    """What the bucket holds now, and all it ever held: for each ledger its versions, None for one that is deleted."""

    s3: S3Server
    bucket: str
    proxy: FaultProxy
    now: dict[int, Offload | None] = field(default_factory=dict)
    past: list[dict[int, Offload | None]] = field(default_factory=list)
    changing: Any = field(default_factory=threading.Lock)

    @cached_property
    def store(self) -> RawStore:
        """The store through the proxy; made once, as s3fs's and botocore's clients take long."""
        return open_store(fsspec.filesystem("s3", **self.proxy.options), self.bucket)

    def put(self, *made: Offload) -> None:
        with self.changing:
            for one in made:
                for key, data in one.objects.items():
                    self.s3.client.put_object(Bucket=self.bucket, Key=key, Body=data)
                self.now = {**self.now, one.ledger_id: one}
            self._changed()

    def restore(self) -> None:
        """Put back what there was at first."""
        if self.now != FIRST:
            self.put(*(made for made in FIRST.values() if made is not None))
        self.past = [self.now]

    def _changed(self) -> None:
        self.past.append(self.now)
        # An answer that is on its way belongs to what there was.
        self.proxy.replay = {}

    def delete(self, ledger_id: int) -> None:
        made = self.now[ledger_id]
        with self.changing:
            self.now = {**self.now, ledger_id: None}
            for key in [] if made is None else made.objects:
                self.s3.client.delete_object(Bucket=self.bucket, Key=key)
            self._changed()

    def replace_data(self) -> None:
        self.put(make_ledger(1, len(self.past)))

    def replace_index(self) -> None:
        self.put(make_ledger(1, created_ms=CREATED_MS + len(self.past)))


@dataclass(frozen=True)
class Reading:
    """One way to read: ``read`` does it, ``expected`` says what is right for a state of the bucket, ``faulty`` which requests may fail."""

    name: str
    read: Callable[[LedgerFileSystem], Outcome]
    expected: Callable[[dict[int, Offload | None]], Outcome]
    faulty: Callable[[str, str, Any], bool] = lambda method, path, headers: method == "GET" and "range" in headers

    def is_of_data(self, method: str, path: str, headers: Any) -> bool:
        """Whether a request is one of a data object; for the catalog, which reads none, one of those it makes."""
        return self.faulty(method, path, headers) and (self.name == "catalog" or not path.endswith("-index"))


def _read_file(fs: LedgerFileSystem) -> Outcome:
    with fs.open(f"entries/{TOPIC}/1.entries") as file:
        return b"".join(iter(lambda: file.read(10_007), b""))


def _read_entries(fs: LedgerFileSystem) -> Outcome:
    return [bytes(entry.data) for entry in fs.bucket.ledger(1).read(5, ENTRIES - 5)]


def _scan(fs: LedgerFileSystem) -> Outcome:
    return fs.bucket.topic(TOPIC).scan(columns=["ledger_id", "entry_id", "value"]).to_arrow().to_pydict()


def _message(fs: LedgerFileSystem) -> Outcome:
    return fs.bucket.topic(TOPIC).message((1, WANTED)).value


def _verify(fs: LedgerFileSystem) -> Outcome:
    return verify(fs.bucket)


def _catalog(fs: LedgerFileSystem) -> Outcome:
    """Sum up the topics; a ledger that is left out because of its index is its error, as for any who ask for it."""
    for bad in fragments_of(fs.bucket.catalog).bad_indexes:
        raise bad.error
    return [(one.name, one.ledgers, one.entries, one.bytes) for one in fs.bucket.topics()]


def _values(made: Offload | None) -> list[bytes]:
    return [] if made is None else [entry[-(4 + 900 + i * 17) :] for i, entry in enumerate(_entries_of(made))]


def _entries_of(made: Offload) -> list[bytes]:
    entries, at = [], 0
    while at < len(made.records):
        size = int.from_bytes(made.records[at : at + 4], "big")
        entries.append(made.records[at + 12 : at + 12 + size])
        at += 12 + size
    return entries


def _rows(state: dict[int, Offload | None]) -> Outcome:
    values = {ledger_id: _values(made) for ledger_id, made in sorted(state.items())}
    return {
        "ledger_id": [ledger_id for ledger_id, of_one in values.items() for _ in of_one],
        "entry_id": [i for of_one in values.values() for i in range(len(of_one))],
        "value": [value for of_one in values.values() for value in of_one],
    }


def _topics(state: dict[int, Offload | None]) -> Outcome:
    found = [_entries_of(made) for made in state.values() if made is not None]
    return [
        (f"persistent://{TOPIC}", len(found), sum(map(len, found)), sum(len(entry) for one in found for entry in one))
    ]


def _missing(state: dict[int, Offload | None], right: Callable[[Offload], Outcome]) -> Outcome:
    """Return what is right for ledger 1; None where it is deleted."""
    return None if state[1] is None else right(state[1])


READINGS = (
    Reading("entries", _read_file, lambda state: _missing(state, lambda made: made.records)),
    Reading("read", _read_entries, lambda state: _missing(state, lambda made: _entries_of(made)[5 : ENTRIES - 4])),
    Reading("scan", _scan, _rows),
    Reading("message", _message, lambda state: _missing(state, lambda made: _values(made)[WANTED])),
    Reading(
        "verify",
        _verify,
        lambda state: sum(len(_entries_of(made)) for made in state.values() if made is not None),
        lambda method, path, headers: method == "GET" and "range" in headers and not path.endswith("-index"),
    ),
    Reading("catalog", _catalog, _topics, lambda method, path, headers: True),
)


@dataclass
class Combination:
    """One fault, on one way to read, on one schedule."""

    kind: str
    schedule: str
    reading: Reading
    world: World
    cache_dir: Path

    def __str__(self) -> str:
        return f"{self.kind} x {self.reading.name} x {self.schedule}"

    @cached_property
    def fs(self) -> LedgerFileSystem:
        """A filesystem with caches of its own, in memory and on disk."""
        made = LedgerFileSystem(
            fo=self.world.bucket,
            target_protocol="s3",
            target_options=self.world.proxy.options,
            skip_instance_cache=True,
        )
        made.bucket = Bucket(self.world.store, str(self.cache_dir), identity=str(self.cache_dir))
        return made

    def run(self) -> str:
        """Do it, check it, and return what came of the fault."""
        reported = self.meet()
        self.check_afterwards()
        return reported

    def meet(self) -> str:
        """Read with the fault, and return what came of it: ``right``, ``unnoticed``, or the name of the error."""
        self.world.restore()
        self.world.proxy.flips.clear()
        if self.reading.name != "catalog":
            self.fs.bucket.load_catalog()
        self.world.proxy.faults = [self._fault()]
        began = time.monotonic()
        try:
            outcome = self.reading.read(self.fs)
        except LedgerfsError as error:
            reported = self._check_error(error)
        else:
            reported = self._check_outcome(outcome)
        seconds = time.monotonic() - began
        assert seconds < MOST_SECONDS, f"{self}: {seconds:.1f} s"
        self.world.proxy.faults = []
        if self.kind in CHANGES:
            # A change that a request set off goes on in the proxy's thread, while other requests have failed already.
            wait_until(lambda: not self.world.proxy.is_busy)
            if reported == "right":
                # Nobody came by what changed: what was listed is what is read, from caches perhaps, until somebody lists anew.
                self.fs.bucket.refresh()
        return reported

    def _fault(self) -> Fault:
        kind, action, matches = self.kind, None, self.reading.faulty
        if self.kind in CHANGES:
            kind = ""
            action = {
                "replaced": self.world.replace_data,
                "deleted": lambda: self.world.delete(1),
                "index replaced": self.world.replace_index,
            }[self.kind]
        elif self.kind == "flip":
            # A listing is text, of which a parser makes another one or an error: not what this is about.
            matches = lambda method, path, headers: self.reading.faulty(method, path, headers) and "range" in headers  # noqa: E731
        elif self.schedule == "always":
            matches = self.reading.is_of_data
        # The first request is mostly one of an index.
        if self.schedule == "once":
            return Fault(kind, 2 if kind == "reset" else 1, matches, after=1, action=action)
        return Fault(kind, matches=matches, every=3 if self.schedule == "third" else 1, action=action)

    def _check_error(self, error: LedgerfsError) -> str:
        reported = f"{self}: {type(error).__name__} {error}"
        keys = [key for state in self.world.past for made in state.values() if made for key in made.objects]
        if isinstance(error, CorruptMessageError):
            assert error.key in {f"entry {ledger}:{entry}" for ledger in (1, 2) for entry in range(ENTRIES)}, reported
        elif error.key in keys:
            assert error.offset is not None, reported
        elif self.reading.name == "catalog":
            assert error.key == f"s3://{self.world.bucket}", reported
        else:
            # A ledger that is gone from the listing is none of the bucket any more.
            assert self.kind == "deleted", reported
            assert isinstance(error, NotFoundError), reported
        assert not (self.schedule == "once" and self.kind in PASSING), reported
        assert self.kind != "slow", reported
        if self.kind == "replaced" and self.reading.name != "catalog":
            assert isinstance(error, StaleObjectError), reported
        return type(error).__name__

    def _check_outcome(self, outcome: Outcome) -> str:
        rights = [self.reading.expected(state) for state in self.world.past]
        if self.reading.name == "verify":
            return self._check_report(outcome)
        if outcome in rights:
            return "right"
        assert self.kind == "flip", f"{self}: wrong bytes, or of two versions"
        # Without a checksum nobody can notice; nothing but the bits that flipped is wrong.
        assert self.reading.name in {"entries", "read", "catalog"}, f"{self}: wrong rows"
        if self.reading.name != "catalog":
            found, right = (one if isinstance(one, bytes) else b"".join(one) for one in (outcome, rights[0]))
            wrong = [i for i, (one, other) in enumerate(zip(found, right, strict=True)) if one != other]
            assert 0 < len(wrong) <= len(self.world.proxy.flips), f"{self}: {len(wrong)} bytes"
            assert all(found[i] ^ right[i] == 1 for i in wrong), str(self)
        return "unnoticed"

    def _check_report(self, report: Any) -> str:
        wrong = [finding for finding in report.findings if finding.kind != "no-user-metadata"]
        wrong = [finding for finding in wrong if finding.kind not in {"no-version-key", "unsaved-schemas"}]
        keys = [key for state in self.world.past for made in state.values() if made for key in made.objects]
        for finding in wrong:
            assert finding.key in keys, f"{self}: {finding}"
            is_about_bytes = finding.kind not in {"deleted-meanwhile", "index-without-data", "data-without-index"}
            assert finding.offset is not None or not is_about_bytes, f"{self}: {finding}"
        if self.kind == "flip":
            assert bool(self.world.proxy.flips) == report.is_damaged, (
                f"{self}: {self.world.proxy.flips} {report.findings}"
            )
        if not wrong:
            assert report.entries in [self.reading.expected(state) for state in self.world.past], str(self)
            return "right"
        assert not (self.schedule == "once" and self.kind in PASSING), f"{self}: {wrong}"
        assert self.kind != "slow", f"{self}: {wrong}"
        if self.kind == "replaced":
            assert {finding.kind for finding in wrong} == {"replaced-meanwhile"}, f"{self}: {wrong}"
        return max((finding.severity for finding in wrong), key=[*reversed(Severity)].index).value

    def check_afterwards(self) -> None:
        """See to it that the same read gives the right bytes when the fault has gone."""
        if self.kind == "flip" and self.reading.name in {"entries", "read"}:
            # Whoever reads bytes cannot know; the next who knows checksums does, and cleans up for all.
            assert _scan(self.fs) == _rows(self.world.now), f"{self}: the next scan"
        if self.reading.name == "catalog" and self.kind == "flip":
            # What was read of an index is kept with its version, whether it was right nobody can tell.
            self.cache_dir = self.cache_dir.with_name(f"{self.cache_dir.name}-anew")
            del self.fs
        if self.reading.name == "catalog":
            self.fs.bucket.refresh()
        expected = self.reading.expected(self.world.now)
        if expected is None:
            with pytest.raises(NotFoundError):
                self.reading.read(self.fs)
        elif self.reading.name == "verify":
            report = self.reading.read(self.fs)
            assert {finding.kind for finding in report.findings} <= {"no-version-key"}, f"{self}: {report.findings}"
            assert report.entries == expected, str(self)
        else:
            assert self.reading.read(self.fs) == expected, f"{self}: afterwards"


CHANGES = frozenset({"replaced", "deleted", "index replaced"})
"""What happens to the bucket itself."""

PASSING = frozenset({"short", "reset", "500", "503", "unranged", "slow", "hang"})
"""What a retry gets over."""
