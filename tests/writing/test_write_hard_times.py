"""What befalls a process that writes: it is killed between two steps, interrupted, ends early, finds the disk full, meets its like.

Never is half a ledger shown, nor a wrong one; a second run completes what the first one began; `repair` ends what it left.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from s3fs import S3FileSystem

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.bucket.opening import open_bucket
from ledgerfs.cli.offload import offload as offload_command
from ledgerfs.cli.repair import repair as repair_command
from ledgerfs.errors import LedgerfsError, ObjectExistsError, StaleObjectError, StoreError
from ledgerfs.storage.folders import writes as local_writes
from ledgerfs.storage.folders.store import LocalStore
from ledgerfs.storage.s3.store import S3Store
from ledgerfs.storage.s3.writes import S3Writes
from ledgerfs.writing.sources import RecordFile
from ledgerfs.writing.write import Wanted, write_ledger
from tests.support.commands import running
from tests.support.ledgers import NAME, offload, put_in_folder
from tests.support.s3 import Fault, FaultProxy, S3Server
from tests.support.writes import BLOCK, TOPIC, UUID, Place, big_entries, folder_place, records, s3_place

SMALL = 64 << 10
"""Bytes of a block, where time is better spent on steps than on bytes."""

MANY = 200
"""More steps than writing a ledger has."""

DATA = f"{UUID}-ledger-1"


class Steps:
    """The steps of writing, to S3 and to folders: what is asked of the store, or of the operating system.

    Before step ``at`` something is done, once.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.at = 0
        self.action: Callable[[], object] = lambda: None
        self._count = 0
        self._lock = threading.Lock()
        for cls, name in ((S3Store, "request"), (S3Store, "head"), (LocalStore, "head")):
            patch.setattr(cls, name, self._hooked(getattr(cls, name)))
        patch.setattr(local_writes, "write_all", self._hooked(local_writes.write_all))
        patch.setattr(local_writes, "os", _Hooked(self._hooked))
        patch.setattr(local_writes, "_sync_folder", self._hooked(local_writes._sync_folder))
        patch.setattr(Path, "unlink", self._hooked(Path.unlink))

    @property
    def was_reached(self) -> bool:
        return self._count >= self.at

    def arm(self, at: int, action: Callable[[], object]) -> None:
        self.at, self.action, self._count = at, action, 0

    def disarm(self) -> None:
        self.at, self._count = 0, 0

    def _hooked(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **named: Any) -> Any:
            with self._lock:
                self._count += 1
                is_now = self._count == self.at
            if is_now:
                self.action()
            return call(*arguments, **named)

        return step


class _Hooked:
    """The module ``os``, with steps."""

    def __init__(self, hooked: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        self._steps = {name: hooked(getattr(os, name)) for name in ("open", "fsync", "link", "pwrite")}

    def __getattr__(self, name: str) -> Any:
        return self._steps.get(name) or getattr(os, name)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    return Steps(monkeypatch)


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moto.s3.models.S3_UPLOAD_PART_MIN_SIZE", 1)
    monkeypatch.setattr(S3Writes, "smallest_part", 1)


@pytest.fixture(scope="module")
def store_proxy(s3: S3Server) -> Iterator[FaultProxy]:
    """A store that obeys conditions also where moto does not."""
    made = FaultProxy(s3.address, is_conditional=True).start()
    yield made
    made.stop()


@pytest.fixture(scope="module", params=["file", "s3"])
def shared_place(
    request: pytest.FixtureRequest, s3: S3Server, store_proxy: FaultProxy, tmp_path_factory: pytest.TempPathFactory
) -> Place:
    if request.param == "file":
        return folder_place(tmp_path_factory.mktemp("written"))
    s3.make_bucket("written", {})
    place = s3_place(s3, "written")
    place.options = store_proxy.options
    return place


@pytest.fixture
def place(shared_place: Place) -> Place:
    shared_place.clear()
    return shared_place


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bucket with one ledger."""
    folder = tmp_path_factory.mktemp("source")
    put_in_folder(folder, offload(big_entries(block_size=SMALL), block_size=SMALL, uuid=UUID))
    return folder


@pytest.fixture(scope="module")
def data() -> bytes:
    return records(big_entries(block_size=SMALL))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def options(place: Place, flag: str = "-o") -> list[str]:
    return [word for name, value in (place.options or {}).items() for word in (flag, f"{name}={value}")]


def copy(source: Path, place: Place) -> None:
    """Run ``ledgerfs offload`` in this process, which has to succeed."""
    done = CliRunner().invoke(offload_command, [str(source), place.url, *options(place, "-O")])
    assert done.exit_code == 0, (done.output, done.exception)


def mend(place: Place) -> None:
    """Run ``ledgerfs repair`` in this process, as one who knows that nobody is writing."""
    arguments = [place.url, *options(place), "--yes", "--older-than", "0s", "--ledger", "1", "--topic", TOPIC]
    done = CliRunner().invoke(repair_command, arguments)
    assert done.exit_code in {0, 1}, (done.output, done.exception)


def killed_at(step: int, steps: Steps, work: Callable[[], object]) -> bool:
    """Do something in a child that is killed before a step; return whether it came so far."""
    # A child that drops them makes the parent's event loop, whose epoll it shares, forget their connections: a request each that hangs.
    held = list(S3FileSystem._cache.values())
    child = os.fork()
    if child == 0:
        steps.arm(step, lambda: os.kill(os.getpid(), signal.SIGKILL))
        try:
            work()
        except BaseException:  # noqa: BLE001  (the child would go on as a second pytest)
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    del held
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0
    return False


def test_a_writer_that_is_killed_leaves_no_half_ledger(place: Place, steps: Steps, source: Path, data: bytes) -> None:
    """Before each step in turn. Then either command comes first, and the other one, and there is a whole ledger and nothing else.

    What is left by a kill before one step is often what one before an earlier step has left: then it is mended alike.
    """
    before = contents(source)
    seen: list[object] = []

    def is_killed(step: int) -> bool:
        steps.disarm()
        place.clear()
        is_there = killed_at(step, steps, lambda: copy(source, place))
        steps.disarm()
        return is_there

    for step in range(1, MANY):
        if not is_killed(step):
            break
        assert place.ledgers() in ([], [data]), step
        left = left_over(place)
        if left in seen:
            continue
        seen.append(left)
        copy(source, place)
        require_whole(place, data, step)
        assert is_killed(step)
        mend(place)
        assert place.uploads() == [], step
        assert place.ledgers() in ([], [data]), step
        copy(source, place)
        require_whole(place, data, step)
    assert 8 < step < MANY - 1
    assert len(seen) >= 5
    assert contents(source) == before


def left_over(place: Place) -> object:
    """Return all that is in a bucket, unfinished uploads and files included, but for names that are made up each time."""
    if place.s3 is None:
        return sorted((path.suffix, path.read_bytes()) for path in folder_of(place).iterdir())
    client, bucket = place.s3.client, place.name
    uploads = client.list_multipart_uploads(Bucket=bucket).get("Uploads", ())
    parts = [client.list_parts(Bucket=bucket, Key=one["Key"], UploadId=one["UploadId"]) for one in uploads]
    return place.contents(), sorted(
        [(part["PartNumber"], part["ETag"]) for part in one.get("Parts", ())] for one in parts
    )


def folder_of(place: Place) -> Path:
    return Path(place.url.removeprefix("file://"))


def require_whole(place: Place, data: bytes, step: int) -> None:
    """Require a whole ledger, and nothing else once the bucket was mended."""
    assert place.ledgers() == [data], step
    mend(place)
    assert place.uploads() == [], step
    assert place.objects() == {DATA, f"{DATA}-index"}, step


@cache
def bucket_of(url: str, options: tuple[tuple[str, str], ...], writer: int) -> Bucket:
    return open_bucket(url, dict(options))


def attempt(writer: int, place: Place, data: bytes, uuid: str, block_size: int) -> LedgerfsError | None:
    """Write as one of two processes would, with a store of its own; return why there is no such ledger."""
    bucket = bucket_of(place.url, tuple((place.options or {}).items()), writer)
    try:
        write_ledger(bucket, Wanted(NAME, 1, uuid, block_size), RecordFile.of("r", data))
    except LedgerfsError as error:
        return error
    return None


OTHER_UUID = UUID.replace("-8000-", "-9000-")
OTHER_DATA = records(big_entries(block_size=SMALL, seed=2))
OTHER_ENTRIES = records(big_entries(blocks=2, block_size=SMALL, seed=3))
RIVALS = {
    "another uuid": (None, OTHER_UUID, SMALL),
    "the same": (None, UUID, SMALL),
    "other blocks": (None, UUID, 2 * SMALL),
    "other bytes": (OTHER_DATA, UUID, SMALL),
    "other entries": (OTHER_ENTRIES, UUID, SMALL),
}
"""What the second writer writes: bytes (None: the same), uuid, block size."""


def check_rivals(how: str, place: Place, outcomes: list[tuple[bytes, LedgerfsError | None]]) -> None:
    """Check that whoever believes to have written has, and that nobody's is mixed with another one's."""
    shown = place.ledgers()
    errors = [error for _, error in outcomes if error is not None]
    assert all(isinstance(error, ObjectExistsError | StaleObjectError) for error in errors), errors
    assert place.uploads() == []
    if how == "another uuid":
        assert not errors
        assert len(shown) == 2
        reader = place.clean.ledger(1)
        assert reader.ref.copy == 0
        return
    assert len(shown) <= 1
    for written, error in outcomes:
        if error is None:
            assert shown == [written]
    if how == "the same":
        assert not errors
    # Somebody wins.
    assert shown
    assert place.objects() == {DATA, f"{DATA}-index"}


@pytest.mark.long
@pytest.mark.parametrize("how", RIVALS)
def test_two_writers_of_one_ledger_id_leave_whole_ledgers(how: str, place: Place, steps: Steps, data: bytes) -> None:
    """The second one does all of its work before a step of the first one, each step in turn."""
    theirs, uuid, block_size = RIVALS[how]
    theirs = data if theirs is None else theirs
    for step in range(1, MANY):
        steps.disarm()
        place.clear()
        second: list[LedgerfsError | None] = []

        def write_theirs(reported: list[LedgerfsError | None] = second) -> None:
            reported.append(attempt(2, place, theirs, uuid, block_size))

        steps.arm(step, write_theirs)
        first = attempt(1, place, data, UUID, SMALL)
        was_reached = bool(second)
        steps.disarm()
        if not was_reached:
            assert first is None
            break
        check_rivals(how, place, [(data, first), (theirs, second[0])])
    assert 8 < step < MANY - 1


@pytest.mark.parametrize("blocks", [2, 5], ids=["small", "large"])
def test_ctrl_c_leaves_no_unfinished_upload(
    blocks: int, s3: S3Server, store_proxy: FaultProxy, tmp_path: Path, s3_bucket: str
) -> None:
    """In the middle of the parts of a ledger that is copied beside others, or by itself."""
    entries = big_entries(blocks)
    source = tmp_path / "source"
    source.mkdir()
    put_in_folder(source, offload(entries, block_size=BLOCK, uuid=UUID))
    before = contents(source)
    place = s3_place(s3, s3_bucket)
    place.options = store_proxy.options
    started: Future[Any] = Future()
    matches = lambda method, path, headers: method == "PUT" and "partNumber=" in path  # noqa: E731
    store_proxy.faults = [Fault("", 1, matches, after=1, action=lambda: started.result().send_signal(signal.SIGINT))]
    with running("offload", str(source), place.url, *options(place, "-O"), reported=tmp_path / "errors") as process:
        started.set_result(process)
        code = process.wait(300)
    store_proxy.faults = []
    errors = (tmp_path / "errors").read_text()
    assert code == 130, errors
    assert "Traceback" not in errors
    assert place.uploads() == []
    assert place.ledgers() in ([], [records(entries)])
    assert contents(source) == before


WRITER = """
import json, sys
from ledgerfs.fsspec_impl import LedgerFileSystem

bucket, options, how = sys.argv[1:]
fs = LedgerFileSystem(
    fo=bucket, target_protocol="s3", target_options=json.loads(options), write_options={"block_size": 5 << 20}
)

def work():
    global file
    file = fs.open("entries/public/default/orders/1.entries", "wb", autocommit=how != "uncommitted")
    file.write(sys.stdin.buffer.read())
    if how == "uncommitted":
        file.close()
    if how == "error":
        raise KeyError
    if how == "exit":
        sys.exit(3)

work()
"""


@pytest.mark.parametrize("how", ["exit", "error", "end", "uncommitted"])
def test_a_process_that_ends_with_an_open_file_leaves_nothing(how: str, s3: S3Server, s3_bucket: str) -> None:
    command = [sys.executable, "-c", WRITER, s3_bucket, json.dumps(s3.options), how]
    done = subprocess.run(command, input=records(big_entries()), capture_output=True, timeout=300, check=False)
    assert done.returncode == {"exit": 3, "error": 1}.get(how, 0), done.stderr
    place = s3_place(s3, s3_bucket)
    assert place.objects() == set()
    assert place.uploads() == [], done.stderr


def write_here(folder: Path, data: bytes) -> None:
    write_ledger(open_bucket(f"file://{folder}"), Wanted(NAME, 1, UUID, SMALL), RecordFile.of("r", data))


def test_a_full_disk_is_reported_and_leaves_nothing(tiny_disk: Path, data: bytes) -> None:
    """Full in the middle of the data, at its end, when the index is written, and not at all."""
    bucket = tiny_disk / "bucket"
    bucket.mkdir()
    pages = -(-len(data) // 4096)
    reported: dict[int, str] = {}
    for room in (0, 1, pages // 2, pages - 1, pages, pages + 1, pages + 2, pages + 3):
        fill_up(tiny_disk / "other", room)
        reported[room] = "done"
        try:
            write_here(bucket, data)
        except StoreError as error:
            reported[room] = error.reason
            assert list(bucket.iterdir()) == [], room
        else:
            assert folder_place(bucket).ledgers() == [data]
            for path in bucket.iterdir():
                path.unlink()
    assert all(reason == "done" or "No space left" in reason for reason in reported.values()), reported
    # Once there is room, there is room.
    assert [reason == "done" for reason in reported.values()] == sorted(
        reason == "done" for reason in reported.values()
    )
    assert reported[pages // 2] != "done"
    assert reported[pages + 3] == "done"


def fill_up(file: Path, room: int) -> None:
    """Let a file take all of a disk but some pages."""
    file.unlink(missing_ok=True)
    size = 0
    with file.open("wb", buffering=0) as other, suppress(OSError):
        while True:
            size += other.write(bytes(4096))
    os.truncate(file, size - 4096 * room)
