"""Each request of writing a ledger x each fault x once, always, every second time: a whole ledger or none, and nothing left over.

What is demanded of each combination:

* The write succeeds, and the ledger reads back byte for byte and without findings; or it raises a `LedgerfsError` after a bounded number of
  requests, and the catalog shows no such ledger. After `UncertainWriteError` either is fine, and nothing between.
* A fault that passes, or meets only every second request, is not noticed at all.
* What is left is only what the store did not let us remove, or tell of: an upload while aborting fails, a data object without an index
  while nobody can ask whether it has one, and uploads that the store began and did not tell of, which hold no parts.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.bucket.opening import open_bucket
from ledgerfs.errors import (
    LedgerfsError,
    ObjectExistsError,
    StaleObjectError,
    StoreError,
    UncertainWriteError,
)
from ledgerfs.storage.s3.writes import S3Writes
from ledgerfs.writing.sources import RecordFile
from ledgerfs.writing.write import write_ledger
from tests.support.each import for_each
from tests.support.s3 import Fault, FaultProxy, S3Server
from tests.support.tries import without_pauses
from tests.support.waiting import wait_until
from tests.support.writes import UUID, Place, big_entries, records, s3_place, wanted, write

Matches = Callable[[str, str, Any], bool]

DATA = f"{UUID}-ledger-1"
INDEX = f"{DATA}-index"
BLOCK = 256 << 10
"""Of three blocks each; moto is told to take so small parts, for the sake of time."""

STEPS: dict[str, Matches] = {
    "create": lambda method, path, headers: method == "POST" and "uploads" in path.partition("?")[2],
    "part": lambda method, path, headers: method == "PUT" and "partNumber=" in path,
    "complete": lambda method, path, headers: method == "POST" and "uploadId=" in path,
    "look for data": lambda method, path, headers: method == "HEAD" and path.endswith(DATA),
    "check data": lambda method, path, headers: method == "HEAD" and path.endswith(DATA),
    "check data again": lambda method, path, headers: method == "HEAD" and path.endswith(DATA),
    "check data last": lambda method, path, headers: method == "HEAD" and path.endswith(DATA),
    "look for index": lambda method, path, headers: method == "HEAD" and path.endswith(INDEX),
    "put index": lambda method, path, headers: method == "PUT" and path.endswith(INDEX),
    "check index": lambda method, path, headers: method == "HEAD" and path.endswith(INDEX),
    "abort": lambda method, path, headers: method == "DELETE" and "uploadId=" in path,
    "delete": lambda method, path, headers: method == "DELETE" and "uploadId=" not in path,
}
AFTER = {"check data": 1, "check data again": 2, "check data last": 3, "check index": 1}
"""How many requests of this kind pass before."""

WITH_BODY = ("part", "complete", "put index")
KINDS = ("500", "503", "403", "reset", "done-500", "done-reset", "half", "200-error", "done-200-error")
SCHEDULES = ("once", "every second", "always")
SAME = {(kind, "every second") for kind in ("403", "503", "200-error", "done-200-error")}
"""What would only repeat others."""

MOST_REQUESTS = 50
"""Of one write: `without_pauses` leaves each request some tries."""

SECONDS = 4.0
"""``LEDGERFS_STORE_TIMEOUT`` of a client that gives up what a store does late."""

HANG_S = 300
"""Whatever takes longer never ends."""


@pytest.fixture(scope="module")
def data() -> bytes:
    return records(big_entries(block_size=BLOCK))


@pytest.fixture(scope="module")
def others() -> bytes:
    """Return another ledger of the same size."""
    return records(big_entries(block_size=BLOCK, seed=2))


@pytest.fixture(autouse=True, scope="module")
def _small_parts() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("moto.s3.models.S3_UPLOAD_PART_MIN_SIZE", 1)
        patch.setattr(S3Writes, "smallest_part", 1)
        yield


@dataclass
class World:
    """A bucket, a proxy before it, and who writes through that, patiently or not."""

    place: Place
    proxy: FaultProxy

    @cached_property
    def patient(self) -> Bucket:
        return open_bucket(self.place.url, self.proxy.options, catalog_max_age=0)

    @cached_property
    def hasty(self) -> Bucket:
        """One whose client was made, and took its time-outs, when they were short."""
        return open_bucket(self.place.url, self.proxy.options, catalog_max_age=0)


@pytest.fixture(scope="module")
def worlds(s3: S3Server) -> Iterator[list[World]]:
    made = []
    for number in range(len(STEPS)):
        name = f"write-faults-{number}"
        s3.make_bucket(name, {})
        made.append(World(s3_place(s3, name), FaultProxy(s3.address, is_conditional=True).start()))
    yield made
    for world in made:
        world.proxy.stop()


@pytest.fixture
def world(worlds: list[World]) -> World:
    return emptied(worlds)


def emptied(worlds: list[World]) -> World:
    """Return one bucket, empty, and without faults."""
    found = worlds[0]
    found.proxy.faults = []
    found.proxy.seen.clear()
    found.place.clear()
    return found


def combinations(kind: str) -> list[str]:
    """Return the steps at which a fault makes sense."""
    if kind == "half":
        return list(WITH_BODY)
    if kind.endswith("200-error"):
        return ["complete"]
    if kind.startswith("done-"):
        # To look is to do nothing.
        return [step for step in STEPS if not step.startswith(("look", "check"))]
    return list(STEPS)


@dataclass
class Combination:
    """One fault, at one request, on one schedule."""

    step: str
    kind: str
    schedule: str
    world: World
    source: Path

    def __str__(self) -> str:
        return f"{self.kind} x {self.step} x {self.schedule}"

    def write(self) -> LedgerfsError | None:
        """Write, with the fault; return the error that comes of it."""
        source = self.source.read_bytes()
        self.world.proxy.seen.clear()
        self.world.proxy.faults = self._faults()
        error: LedgerfsError | None = None
        try:
            write_ledger(self.world.patient, wanted(block_size=BLOCK), RecordFile.at(self.source))
        except LedgerfsError as raised:
            error = raised
        self.world.proxy.faults = []
        assert len(self.world.proxy.seen) <= MOST_REQUESTS, str(self)
        assert self.source.read_bytes() == source
        return error

    def outcome(self, error: LedgerfsError | None) -> str:
        """Check what came of it, and return that: ``written``, or the name of the error."""
        self._check(error, self.source.read_bytes())
        return "written" if error is None else type(error).__name__

    def _faults(self) -> list[Fault]:
        times = 1 if self.schedule == "once" else 1_000_000
        every = 2 if self.schedule == "every second" else 1
        fault = Fault(self.kind, times, STEPS[self.step], after=AFTER.get(self.step, 0), every=every)
        # Nobody aborts or deletes what goes well.
        needed = {"abort": Fault("403", matches=STEPS["part"]), "delete": Fault("403", matches=STEPS["put index"])}
        return [fault, *([needed[self.step]] if self.step in needed else [])]

    def _check(self, error: LedgerfsError | None, source: bytes) -> None:
        place, reported = self.world.place, f"{self}: {error!r}"
        ledgers, objects, uploads = place.ledgers(), place.objects(), place.uploads()
        may_pass = self.kind != "403" and self.step not in {"abort", "delete"}
        if self.schedule != "always" and may_pass:
            assert error is None, reported
        if error is None:
            assert ledgers == [source], reported
            assert objects == {DATA, INDEX}, reported
        elif isinstance(error, UncertainWriteError):
            assert ledgers in ([], [source]), reported
        else:
            assert ledgers == [], reported
            assert objects <= ({DATA} if self._keeps_data else set()), f"{reported} {objects}"
        if uploads:
            is_untold = self.step == "create" and self.kind.startswith("done-")
            is_kept = self.step == "abort" and (self.schedule == "always" or self.kind == "403")
            assert is_untold or is_kept, reported
            assert is_kept or place.parts() == 0, reported

    @property
    def _keeps_data(self) -> bool:
        """Whether the data object cannot be removed, or nobody can tell whether it may be."""
        is_kept = self.schedule == "always" or self.kind == "403"
        return is_kept and (self.step == "delete" or self.step.startswith(("look for index", "check data")))


@pytest.mark.parametrize(
    ("kind", "schedule"),
    [(kind, schedule) for kind in KINDS for schedule in SCHEDULES if (kind, schedule) not in SAME],
)
def test_a_fault_leaves_a_whole_ledger_or_none(
    kind: str,
    schedule: str,
    worlds: list[World],
    data: bytes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source = tmp_path / "records"
    source.write_bytes(data)
    tried = [
        Combination(step, kind, schedule, world, source)
        for step, world in zip(combinations(kind), worlds, strict=False)
    ]
    with ThreadPoolExecutor(len(tried)) as pool:
        list(pool.map(lambda one: one.world.place.clear(), tried))
        with monkeypatch.context() as patch:
            without_pauses(patch)
            errors = list(pool.map(Combination.write, tried))
        outcomes = list(pool.map(Combination.outcome, tried, errors))
    reported = (f"{one.step}: {outcome}" for one, outcome in zip(tried, outcomes, strict=True))
    with capsys.disabled():
        print(f"\nwrite faults, {kind} {schedule}: {'; '.join(reported)}")


def failed(world: World, data: bytes, *faults: Fault, error: type[LedgerfsError] = StoreError) -> LedgerfsError:
    """Write with these faults, which has to fail and to show no ledger; return the error."""
    world.proxy.faults = list(faults)
    with pytest.raises(error) as caught:
        write(world.patient, data, block_size=BLOCK)
    world.proxy.faults = []
    assert world.place.ledgers() == []
    return caught.value


@for_each("status", ["501", "400"])
def test_a_store_that_does_not_know_the_condition_is_asked_without_it(
    status: str, worlds: list[World], data: bytes
) -> None:
    world = emptied(worlds)
    world.proxy.faults = [Fault(status, matches=lambda method, path, headers: "if-none-match" in headers)]
    write(world.patient, data, block_size=BLOCK)
    world.proxy.faults = []
    assert world.place.ledgers() == [data]
    assert world.place.uploads() == []


@for_each("is_silent", [False, True])
@for_each("what", ["data", "index"])
def test_an_object_that_is_not_ours_stays(what: str, is_silent: bool, worlds: list[World], data: bytes) -> None:
    """Also where the store takes no notice of the condition, and of two uploads the later one wins."""
    world = emptied(worlds)
    key = DATA if what == "data" else INDEX
    assert world.place.s3 is not None
    world.place.s3.client.put_object(Bucket=world.place.name, Key=key, Body=b"other")
    world.proxy.is_conditional = not is_silent
    try:
        with pytest.raises(ObjectExistsError):
            write(world.patient, data, block_size=BLOCK)
    finally:
        world.proxy.is_conditional = True
    assert world.place.contents()[key] == b"other"
    assert world.place.uploads() == []


@for_each("status", ["409", "412"])
@for_each("step", ["complete", "put index"])
def test_an_object_that_came_meanwhile_stays(status: str, step: str, worlds: list[World], data: bytes) -> None:
    world = emptied(worlds)
    key = DATA if step == "complete" else INDEX
    client = world.place.s3.client if world.place.s3 is not None else None

    def come() -> None:
        client.put_object(Bucket=world.place.name, Key=key, Body=b"other")

    world.proxy.faults = [Fault(status, matches=STEPS[step], action=come)]
    with pytest.raises(ObjectExistsError):
        write(world.patient, data, block_size=BLOCK)
    world.proxy.faults = []
    assert world.place.contents()[key] == b"other"
    assert world.place.uploads() == []


@for_each(
    ("kind", "step", "after", "left"),
    [
        ("replaced", "check data", 1, {DATA}),
        ("resized", "check data", 1, set()),
        ("halved", "part", 0, set()),
        ("halved", "part", 2, set()),
    ],
)
def test_what_is_not_what_was_sent_gets_no_index(
    kind: str, step: str, after: int, left: set[str], worlds: list[World], data: bytes
) -> None:
    """Of another object than the one that was completed nobody knows whose it is, so it stays, unless it is ours by name.

    moto compares no checksums, and takes half a part for a part: as a store that lies would.
    """
    world = emptied(worlds)
    error = failed(world, data, Fault(kind, matches=STEPS[step], after=after))
    assert "were sent" in error.reason
    assert world.place.objects() == left
    assert world.place.uploads() == []


def test_an_index_that_is_not_what_was_sent_is_uncertain(world: World, data: bytes) -> None:
    world.proxy.faults = [Fault("resized", matches=STEPS["check index"], after=1)]
    with pytest.raises(UncertainWriteError):
        write(world.patient, data, block_size=BLOCK)
    assert world.place.ledgers() == [data]


@pytest.mark.parametrize("step", ["create", "part", "complete", "put index"])
def test_what_the_store_does_after_it_was_given_up_makes_no_half_ledger(
    step: str, world: World, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.proxy.faults = [Fault("late", matches=STEPS[step])]
    with monkeypatch.context() as patch, suppress(LedgerfsError):
        patch.setenv("LEDGERFS_STORE_TIMEOUT", str(SECONDS))
        write(world.hasty, data, block_size=BLOCK)
    world.proxy.faults = []
    # What was given up is done by now, or soon, one after another.
    wait_until(lambda: not world.proxy.is_busy, HANG_S)
    assert world.place.ledgers() in ([], [data])
    assert world.place.objects() in (set(), {DATA}, {DATA, INDEX})


def test_an_upload_that_somebody_else_ended_is_reported_so(world: World, data: bytes) -> None:
    for step in ("part", "complete"):
        world.place.clear()
        # moto knows no such thing: a part of an upload that is not there is an error of its own to it.
        error = failed(world, data, Fault("404", matches=STEPS[step]))
        assert "completed or aborted it" in error.reason
        assert world.place.objects() == set()


@for_each("is_index_there", [True, False])
def test_another_writer_that_replaces_the_data_object_wins(
    is_index_there: bool, worlds: list[World], data: bytes, others: bytes
) -> None:
    """Where no condition is known: ours gets no index, or loses it; theirs is left alone."""
    world = emptied(worlds)
    client = world.place.s3.client if world.place.s3 is not None else None
    body = bytes(len(others))

    def replace() -> None:
        client.put_object(Bucket=world.place.name, Key=DATA, Body=body)

    step, after = ("check data last", 3) if is_index_there else ("check data again", 2)
    failed(world, data, Fault("", times=1, matches=STEPS[step], after=after, action=replace), error=StaleObjectError)
    assert world.place.contents() == {DATA: body}
