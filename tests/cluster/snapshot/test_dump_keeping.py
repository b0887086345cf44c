"""Dumps beside a bucket: what is added, read and pruned, whoever else adds, prunes, fails or is killed meanwhile."""

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from ledgerfs import open_bucket
from ledgerfs.errors import (
    AccessDeniedError,
    CorruptObjectError,
    LedgerfsError,
    NotFoundError,
    ObjectNotFoundError,
)
from ledgerfs.storage.object_store import RawStore
from ledgerfs.storage.objects import ObjectStat
from ledgerfs.storage.opening import open_store
from ledgerfs.storage.url_filesystem import filesystem_of
from ledgerfs_cluster.snapshot.dump_file import Record, read_dump
from ledgerfs_cluster.snapshot.kept_dumps import (
    FOLDER,
    KeptDump,
    add_dump,
    dumps_folder,
    kept_dump_key,
    kept_dumps,
    parse_kept_dump,
    read_dump_at,
    read_kept_dump,
    remove_old_dumps,
)
from ledgerfs_cluster.snapshot.surveying import dump_cluster
from tests.cluster.support.live_clusters import LiveCluster, messages
from tests.cluster.support.living_clusters import living
from tests.support.each import for_each
from tests.support.s3 import Fault, FaultProxy, S3Server
from tests.support.tries import without_pauses

TOPIC = "public/default/a"
CLUSTER = "47099c88-d3cd-44de-91a6-f8bc42d28371"


@pytest.fixture(autouse=True)
def _topic(cluster: LiveCluster) -> None:
    cluster.write_ledger(TOPIC, messages(3))


@pytest.fixture(name="store")
def _store(tmp_path: Path) -> RawStore:
    (tmp_path / "tier").mkdir()
    return opened(str(tmp_path / "tier"))


def opened(url: str, **options: Any) -> RawStore:
    return open_store(*filesystem_of(url, options), is_private=True)


def added(
    cluster: LiveCluster,
    store: Any,
    count: int = 1000,
    at: Callable[[str], object] = lambda what: None,
    wholes: list[list[Record]] | None = None,
) -> KeptDump:
    """Dump a cluster, add the dump, and remove older ones; ``wholes`` gets the records of the dump before it is added."""
    with living(cluster) as one, TemporaryDirectory() as folder:
        file = Path(folder, "dump")
        done = dump_cluster(one, None, file, lambda what, *_: at(what))
        if wholes is not None:
            wholes.append(list(read_dump(file)))
        kept = add_dump(store, dumps_folder(one), file, done.began_ms)
        remove_old_dumps(store, kept, count)
        return kept


def records(store: RawStore, kept: KeptDump) -> list[Record]:
    return list(read_kept_dump(store, kept))


@dataclass
class Seen:
    """A store whose writes are told before, and the plain dumps that went into it."""

    store: Any
    before: Callable[[str, str], object] = lambda what, key: None

    @property
    def writes(self) -> "Seen":
        return replace(self, store=self.store.writes)

    def put(self, key: str, *rest: Any) -> ObjectStat:
        self.before("put", key)
        found = self.store.put(key, *rest)
        self.before("after put", key)
        return found

    def delete(self, key: str) -> None:
        self.before("delete", key)
        self.store.delete(key)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)


@pytest.fixture(name="wholes")
def _wholes() -> list[list[Record]]:
    """The records of each dump before it was kept."""
    return []


def test_dumps_are_read_as_they_were_before_they_were_kept(
    cluster: LiveCluster, store: RawStore, wholes: list[list[Record]], tmp_path: Path
) -> None:
    for _ in range(4):
        added(cluster, store, wholes=wholes)
        cluster.roll_over(TOPIC)
    kept = kept_dumps(store)
    assert [records(store, one) for one in kept] == wholes
    for one, whole in zip(kept, wholes, strict=True):
        assert list(read_dump_at(f"file://{tmp_path}/tier/{one.key}")) == whole
        assert list(read_dump_at(f"{tmp_path}/tier/{one.key}")) == whole
        assert stat.S_IMODE((tmp_path / "tier" / one.key).stat().st_mode) == 0o600
    assert {one.cluster.partition(".")[0] for one in kept} == {CLUSTER}


def test_whoever_reads_a_bucket_finds_its_newest_dump_anew(
    cluster: LiveCluster, store: RawStore, wholes: list[list[Record]], tmp_path: Path
) -> None:
    """Through the store of an open bucket, too, which keeps what it reads of ledgers."""
    reading = open_bucket(str(tmp_path / "tier")).store
    assert kept_dumps(reading) == []
    for _ in range(3):
        added(cluster, store, wholes=wholes)
        cluster.roll_over(TOPIC)
        assert list(read_kept_dump(reading, kept_dumps(reading)[-1])) == wholes[-1]


NAME = "20261128T005327123Z-full-" + "a" * 32 + ".json.zst"


def test_a_name_reports_all_of_a_dump() -> None:
    found = parse_kept_dump(ObjectStat(f"{FOLDER}c-1/{NAME}", 5, 6, "v"))
    assert found is not None
    assert (found.cluster, found.taken_ms, found.digest) == ("c-1", 1795827207123, "a" * 32)
    assert kept_dump_key("c-1", found.taken_ms, found.digest) == found.key


@for_each(
    "key",
    [f"c/{NAME}", f"{FOLDER}{NAME}", f"{FOLDER}c/d/{NAME}", f"{FOLDER}../{NAME}", f"{FOLDER}c/{NAME}.part", f"{FOLDER}c/.{NAME}",
     *(f"{FOLDER}c/{NAME.replace(*one)}" for one in (
         ("full", "delta"), ("-full-", "-"), ("20261128", "20261328"), ("T005327", "T995327"), ("20261128", "00011128"),
         ("20261128", "99991128"),
         ("aaaa", "aaa"), ("aaaa", "AAAA"), (".json.zst", ".json"), ("20261128", "\uff120261128")))],
)  # fmt: skip
def test_other_names_are_none_of_dumps(key: str) -> None:
    assert parse_kept_dump(ObjectStat(key, 1, 1, "")) is None


def test_a_clock_that_goes_back_leaves_the_order(
    cluster: LiveCluster, store: RawStore, wholes: list[list[Record]], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = added(cluster, store, wholes=wholes)
    monkeypatch.setattr("ledgerfs_cluster.snapshot.surveying._now", lambda: 1_000_000_000_000)
    second = added(cluster, store, 1, wholes=wholes)
    assert second.taken_ms == first.taken_ms + 1
    assert kept_dumps(store)[-1].key == second.key
    assert records(store, kept_dumps(store)[-1]) == wholes[1]


@for_each("has_id", [False, True])
def test_two_clusters_in_one_bucket_do_not_mix(
    cluster: LiveCluster, store: RawStore, tmp_path: Path, *, has_id: bool
) -> None:
    """Neither do those that have one BookKeeper, or an id that is no name."""
    first = added(cluster, store)
    with LiveCluster(tmp_path / f"other-{has_id}") as other:
        other.zookeeper.set("/ledgers/INSTANCEID", cluster.nodes["/ledgers/INSTANCEID"] if has_id else b"../\xff")
        other.write_ledger(TOPIC, messages(1))
        mine = added(other, store, 1)
        assert mine.cluster.rpartition(".")[0] == (CLUSTER if has_id else "cluster")
    assert mine.cluster != first.cluster
    assert [one.key for one in kept_dumps(store, mine.cluster)] == [mine.key]
    assert first.key in [one.key for one in kept_dumps(store, first.cluster)]


def test_other_objects_are_reported_of_and_left(
    cluster: LiveCluster, store: RawStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    added(cluster, store)
    folder = tmp_path / "tier" / FOLDER
    (folder / "notes.txt").write_text("x")
    (own,) = folder.glob(f"{CLUSTER}.*")
    (own / "20261128T005327123Z-full-abc.json.zst").write_text("x")
    assert len(kept_dumps(store)) == 1
    assert "notes.txt" in caplog.text
    assert "full-abc" in caplog.text
    added(cluster, store, 1)
    assert (folder / "notes.txt").exists()


def test_nothing_is_known_of_a_folder_that_may_not_be_listed(store: RawStore) -> None:
    refusing = Seen(store)
    refusing.list_folder = lambda folder: iter([[ObjectStat(folder, 0, 0, "", "access denied")]])  # type: ignore[attr-defined]
    with pytest.raises(AccessDeniedError):
        kept_dumps(refusing)


# Damage.


def test_a_damaged_dump_is_reported(
    cluster: LiveCluster, store: RawStore, wholes: list[list[Record]], tmp_path: Path
) -> None:
    one = added(cluster, store, wholes=wholes)
    path = tmp_path / "tier" / one.key
    data = path.read_bytes()
    middle = len(data) // 2
    for other in (data[:middle], data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :], data + data):
        path.write_bytes(other)
        (listed,) = kept_dumps(store)
        with pytest.raises(CorruptObjectError, match=one.key):
            records(store, listed)
    path.write_bytes(data)
    (listed,) = kept_dumps(store)
    assert records(store, listed) == wholes[0]


def test_what_is_pruned_while_it_is_read_is_reported(cluster: LiveCluster, store: RawStore) -> None:
    one = added(cluster, store)
    store.writes.delete(one.key)
    with pytest.raises(ObjectNotFoundError):
        records(store, one)


def test_a_place_that_is_none_is_reported(store: RawStore, tmp_path: Path) -> None:
    for name in ("20261128T005327123Z-full-" + "a" * 32 + ".json.zst", "x.json.zst"):
        with pytest.raises(NotFoundError):
            list(read_dump_at(f"{tmp_path}/tier/{FOLDER}{CLUSTER}/{name}"))
    with pytest.raises(NotFoundError):
        list(read_dump_at(str(tmp_path / "none")))


# Meetings.


class Killed(BaseException):
    pass


@pytest.mark.parametrize("step", ["reading topics", "put", "after put", "delete", "second delete"])
def test_an_end_at_each_step_leaves_whole_dumps_and_the_next_one_prunes(
    cluster: LiveCluster, store: RawStore, wholes: list[list[Record]], step: str
) -> None:
    for _ in range(4):
        added(cluster, store, wholes=wholes)
        cluster.roll_over(TOPIC)
    seen: list[str] = []

    def end(what: str, _: str = "") -> None:
        seen.append(what)
        if (what == step.rsplit(maxsplit=1)[-1] and seen.count(what) == (2 if "second" in step else 1)) or what == step:
            raise Killed

    with pytest.raises(Killed):
        added(cluster, Seen(store, end), 2, end, wholes)
    kept = kept_dumps(store)
    assert kept
    assert all(records(store, one) in wholes for one in kept)
    added(cluster, store, 2, wholes=wholes)
    left = kept_dumps(store)
    assert len(left) == 2
    assert records(store, left[-1]) == wholes[-1]


# Stores that fail.


@pytest.fixture(scope="module")
def shared_proxy(s3: S3Server) -> Iterator[FaultProxy]:
    """One proxy for all tests: s3fs makes a client for each endpoint, which takes its time."""
    proxy = FaultProxy(s3.address).start()
    yield proxy
    proxy.stop()


@pytest.fixture(name="proxy")
def _proxy(shared_proxy: FaultProxy) -> FaultProxy:
    shared_proxy.faults = []
    return shared_proxy


def s3_bucket(server: S3Server, proxy: FaultProxy) -> tuple[str, dict[str, Any]]:
    name = f"dumps-{os.urandom(4).hex()}"
    server.make_bucket(name, {})
    return f"s3://{name}", {**server.options, "endpoint_url": proxy.endpoint}


def test_dumps_on_s3_are_read_as_the_whole_ones(
    cluster: LiveCluster, s3: S3Server, proxy: FaultProxy, wholes: list[list[Record]], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, options = s3_bucket(s3, proxy)
    store = opened(url, **options)
    added(cluster, store, wholes=wholes)
    cluster.roll_over(TOPIC)
    added(cluster, store, wholes=wholes)
    assert [records(store, one) for one in kept_dumps(store)] == wholes
    assert list(read_dump_at(f"{url}/{kept_dumps(store)[-1].key}", options)) == wholes[-1]
    # Read in pieces, too.
    monkeypatch.setattr("ledgerfs_cluster.snapshot.kept_dumps._PIECE", 1 << 20)
    for number in range(4):
        cluster.zookeeper.set(f"/ledgers/00/0001/L{number:04d}", os.urandom(500_000))
    third = added(cluster, store, wholes=wholes)
    assert records(store, kept_dumps(store)[-1]) == wholes[-1]
    assert kept_dumps(store)[-1].key == third.key
    assert third.stat.size > 1 << 20
    with pytest.raises(CorruptObjectError, match="digest"):
        records(store, replace(third, digest="0" * 32))


@pytest.mark.long
@pytest.mark.parametrize(
    ("method", "kind"),
    [("GET", "500"), ("GET", "404"), ("GET", "short"), ("GET", "cut"), ("GET", "flip"), ("GET", "replaced"), ("HEAD", "500"),
     ("PUT", "500"), ("PUT", "half"), ("PUT", "done-reset"), ("DELETE", "500"), ("DELETE", "done-reset")],
)  # fmt: skip
def test_a_store_that_fails_in_the_middle_leaves_dumps_that_are_whole(
    cluster: LiveCluster, s3: S3Server, proxy: FaultProxy, wholes: list[list[Record]], method: str, kind: str
) -> None:
    """From one of its requests on the store fails for good; then it is well again, and so is all that is there, and the next dump."""
    url, options = s3_bucket(s3, proxy)
    clean = opened(url, **options)
    added(cluster, clean, wholes=wholes)
    for after in range(2):
        cluster.roll_over(TOPIC)
        proxy.faults[:] = [Fault(kind, matches=lambda one, path, headers: one == method, after=after)]
        with pytest.MonkeyPatch.context() as patch, suppress(LedgerfsError):
            without_pauses(patch)
            added(cluster, opened(url, **options), 1, wholes=wholes)
        proxy.faults.clear()
        listed = kept_dumps(clean)
        assert listed
        assert all(records(clean, one) in wholes for one in listed)
    added(cluster, clean, wholes=wholes)
    assert records(clean, kept_dumps(clean)[-1]) == wholes[-1]


@pytest.mark.process
def test_a_kill_while_a_dump_is_uploaded_leaves_none_of_it(
    cluster: LiveCluster, store: RawStore, tmp_path: Path
) -> None:
    """What is half written to a folder has another name, which no listing shows."""
    added(cluster, store)
    cluster.roll_over(TOPIC)
    program = f"""
import os, signal
from ledgerfs.storage.folders import writes
real = writes.write_all
def half(descriptor, data):
    real(descriptor, bytes(data)[: len(data) // 2])
    os.kill(os.getpid(), signal.SIGKILL)
writes.write_all = half
from ledgerfs.cli.group import run
import sys
sys.argv = ["ledgerfs", "cluster", "dump", {cluster.url!r}, "--to", {str(tmp_path / "tier")!r}, "--no-bookies"]
run()
"""
    done = subprocess.run([sys.executable, "-c", program], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    parts = [path for path in (tmp_path / "tier" / FOLDER).glob(f"{CLUSTER}.*/*") if path.name.endswith(".part")]
    assert [stat.S_IMODE(path.stat().st_mode) for path in parts] == [0o600]
    assert len(kept_dumps(store)) == 1
    added(cluster, store)
    assert len(kept_dumps(store)) == 2
