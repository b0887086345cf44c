"""What goes wrong below a mount is an error of the tool that reads, with its number and one line in the log; never a short file."""

import errno
import os
import shutil
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pytest

from ledgerfs.errors import CorruptObjectError, MissingLedgerError
from ledgerfs.fsspec_impl import LedgerFileSystem
from tests.support.entries import frame, metadata
from tests.support.lacking import key_of
from tests.support.ledgers import Offload, offload, put_in_folder
from tests.support.matrix import TOPIC, make_ledger
from tests.support.mounts import PATIENCE, PATIENT, Mount, mounted, number_of
from tests.support.s3 import Fault, FaultProxy, S3Server
from tests.support.waiting import wait_until

FAULTS = {
    "reset": {errno.ETIMEDOUT},
    "500": {errno.EIO},
    "503": {errno.EIO},
    "403": {errno.EACCES},
    "404": {errno.ENOENT},
    "short": {errno.EIO},
    "cut": {errno.EIO},
    "hang": {errno.ETIMEDOUT},
    "replaced": {errno.ESTALE},
    "unranged": {errno.EIO},
    "slow": {0},
}
"""What a tool is told when each request fails from some on; 0 for none, when it gets the right bytes."""

AFTER = (0, 4)
"""From which request of the ledger's data on."""

IDS = {(kind, after): 10 + 2 * number + bool(after) for number, kind in enumerate(FAULTS) for after in AFTER}
LOSSY = "public/lossy/persistent/orders"
DELETED, REPLACED, RENDERED, HANGING = 50, 51, 52, 53


@pytest.fixture(scope="module")
def made() -> dict[int, Offload]:
    return {number: make_ledger(number) for number in (*IDS.values(), DELETED, REPLACED, RENDERED, HANGING)}


@pytest.fixture(scope="module")
def bucket(s3: S3Server, made: dict[int, Offload]) -> str:
    name = f"mount-faults-{uuid.uuid4().hex[:8]}"
    s3.make_bucket(name, {key: data for one in made.values() for key, data in one.objects.items()})
    return name


@pytest.fixture(scope="module")
def faulty(s3: S3Server) -> Iterator[FaultProxy]:
    proxy = FaultProxy(s3.address).start()
    yield proxy
    proxy.stop()


@pytest.fixture(scope="module")
def mount(bucket: str, faulty: FaultProxy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mount]:
    folder = tmp_path_factory.mktemp("mount-faults")
    # Once it has come by what is gone, the next look is at the bucket.
    constants = {"ledgerfs.fuse_mount.operations._OUTDATED_SECONDS": -1}
    options = {**faulty.options, **PATIENT}
    with mounted(folder, f"s3://{bucket}", options, is_faulty=True, parts=True, constants=constants) as one:
        yield one


@pytest.fixture
def proxy(faulty: FaultProxy) -> Iterator[FaultProxy]:
    yield faulty
    faulty.faults = []


def path_of(number: int, view: str = "entries") -> str:
    return f"{view}/{TOPIC}/{number}.{view}"


def is_of(number: int) -> Callable[[str, str, object], bool]:
    return lambda method, path, headers: method == "GET" and path.endswith(f"-ledger-{number}")


def errors_of(mount: Mount, number: int) -> list[str]:
    return [line for line in mount.log if line.startswith("ERROR") and f"ledger-{number}" in line]


def test_each_fault_is_an_error_of_the_tool(mount: Mount, proxy: FaultProxy, made: dict[int, Offload]) -> None:
    """All at the same time, each for a ledger of its own: those that take long wait for each other's ends only."""
    proxy.faults = [Fault(kind, matches=is_of(number), after=after) for (kind, after), number in IDS.items()]

    def read(case: tuple[str, int]) -> None:
        kind, number = case[0], IDS[case]
        wanted = made[number].records
        if 0 in FAULTS[kind]:
            assert mount.run(f"cat {path_of(number)}").stdout == wanted, case
            assert errors_of(mount, number) == [], case
            return
        done = mount.run(f"cat {path_of(number)}", 1)
        assert len(done.stdout) < len(wanted), case
        assert done.stdout == wanted[: len(done.stdout)], case
        assert number_of(done) in FAULTS[kind], case
        assert [" at byte " in line for line in errors_of(mount, number)] == [True], (case, mount.log)
        # For whatever tool, and however it reads.
        if kind in {"403", "404", "replaced"}:
            for command in (
                "dd bs=1M if={f} iflag=direct of=../r{n}",
                "cp {f} ../r{n}",
                "cat < {f} | cmp - /dev/null",
                "tail -c 1 {f}",
            ):
                mount.run("set -o pipefail; " + command.format(f=path_of(number), n=number), None)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(read, [case for case in IDS if case[0] != "hang"]))
        # Only what hangs is given up by a clock.
        with mount.impatient(0.3):
            list(pool.map(read, [case for case in IDS if case[0] == "hang"]))
    proxy.faults = []
    for number in IDS.values():
        assert mount.run(f"cat {path_of(number)}").stdout == made[number].records


def test_a_table_that_cannot_be_rendered_is_an_error_whoever_asks(mount: Mount, proxy: FaultProxy) -> None:
    file = path_of(RENDERED, "jsonl")
    proxy.faults = [Fault("403", matches=is_of(RENDERED))]
    for command in ("cat {f}", "cp {f} ../read", "wc -c {f}", "head -1 {f}"):
        done = mount.run(command.format(f=file), None)
        assert number_of(done) == errno.EACCES
        assert done.stdout.strip() in {b"", b"0 total"}
    assert len(errors_of(mount, RENDERED)) == 1
    # What needs no rendering is as it was.
    mount.run(f"ls -l {Path(file).parent} | grep -q 52.jsonl; find jsonl -size +0 | grep -q 52.jsonl; stat {file}")
    proxy.faults = []
    assert mount.run(f"cat {file} | wc -l").stdout.split() == [b"60"]


def test_a_ledger_that_is_deleted_is_reported_and_not_shown_any_more(
    mount: Mount, s3: S3Server, bucket: str, made: dict[int, Offload]
) -> None:
    mount.run(f"stat {path_of(DELETED)}")
    for key in made[DELETED].objects:
        s3.client.delete_object(Bucket=bucket, Key=key)
    assert number_of(mount.run(f"cat {path_of(DELETED)}", 1)) == errno.ENOENT
    assert len(errors_of(mount, DELETED)) == 1
    mount.run(f"cat {path_of(DELETED)}", 1)
    assert f"{DELETED}.entries" not in mount.output(f"ls entries/{TOPIC}")
    for key, data in made[DELETED].objects.items():
        s3.client.put_object(Bucket=bucket, Key=key, Body=data)
    mount.ask("refresh")
    assert mount.run(f"cat {path_of(DELETED)}").stdout == made[DELETED].records


def test_a_ledger_that_is_replaced_is_reported_and_then_the_new_one(
    mount: Mount, s3: S3Server, bucket: str, made: dict[int, Offload]
) -> None:
    old, new = made[REPLACED].records, make_ledger(REPLACED, 1)
    file = os.open(mount.path / path_of(REPLACED), os.O_RDONLY | os.O_DIRECT)
    try:
        read = os.pread(file, 4096, 0)
        for key, data in new.objects.items():
            s3.client.put_object(Bucket=bucket, Key=key, Body=data)
        for at in range(4096, len(old), 4096):
            try:
                read += os.pread(file, 4096, at)
            except OSError as error:
                number = error.errno
                break
        else:
            number = 0
        assert number == errno.ESTALE
        assert old.startswith(read)
        assert mount.run(f"cat {path_of(REPLACED)}").stdout == new.records
        with pytest.raises(OSError) as refused:
            os.pread(file, 4096, 0)
        assert refused.value.errno == errno.ESTALE
    finally:
        os.close(file)
    # Not one byte of the old one is given for the new one's.
    assert mount.run(f"cat {path_of(REPLACED)}").stdout == new.records


def test_a_mount_answers_while_a_read_hangs(mount: Mount, proxy: FaultProxy, made: dict[int, Offload]) -> None:
    is_let_go = threading.Event()
    proxy.faults = [Fault("403", matches=is_of(HANGING), action=is_let_go.wait)]
    reading = [subprocess_of(mount, HANGING) for _ in range(3)]
    try:
        wait_until(lambda: proxy.faults[0].met > 0, PATIENCE)
        mount.run(f"ls -l entries/{TOPIC}; stat {path_of(IDS['slow', 0])}; cat {path_of(IDS['slow', 0])}; stat -f .")
        assert [one.poll() for one in reading] == [None] * 3, "they wait for the store"
    finally:
        is_let_go.set()
        assert {one.wait(PATIENCE) for one in reading} == {1}


def subprocess_of(mount: Mount, number: int) -> "subprocess.Popen[bytes]":
    command = ["cat", str(mount.path / path_of(number))]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def test_all_went_without_a_file_left_open(mount: Mount) -> None:
    mount.wait_until_all_is_closed()


@pytest.fixture
def changing(tmp_path: Path) -> Iterator[tuple[Mount, Path]]:
    """A bucket in a folder, which is listed often."""
    folder = tmp_path / "bucket"
    folder.mkdir()
    put_in_folder(folder, make_ledger(1), make_ledger(2))
    with mounted(tmp_path, f"file://{folder}", refresh_seconds=0.3) as mount:
        yield mount, folder


def test_what_is_offloaded_appears_and_what_is_removed_goes(changing: tuple[Mount, Path]) -> None:
    mount, folder = changing
    topic = mount.path / "entries" / TOPIC
    with (topic / "2.entries").open("rb", buffering=0) as file:
        assert os.pread(file.fileno(), 100, 0) == make_ledger(2).records[:100]
        put_in_folder(folder, make_ledger(3))
        wait_until((topic / "3.entries").exists, PATIENCE)
        assert (topic / "3.entries").read_bytes() == make_ledger(3).records
        put_in_folder(folder, offload([b"x"], 4, uuid=4, name="other/tenant/persistent/topic"))
        wait_until((mount.path / "info/other/tenant/topic/4.json").exists, PATIENCE)
        for key in make_ledger(2).objects:
            if key.endswith("-index"):
                (folder / key).unlink()
        wait_until(lambda: not (topic / "2.entries").exists(), PATIENCE)
        assert sorted(path.name for path in topic.iterdir()) == ["1.entries", "3.entries"]
        # Whoever has it open reads on: its size is what it was.
        time.sleep(0.5)
        assert os.pread(file.fileno(), 1 << 20, 0) == make_ledger(2).records
    assert [line for line in mount.log if line.startswith("ERROR")] == []


def content_of(fs: LedgerFileSystem, file: str) -> bytes | None:
    """Return what fsspec reads; None for what is damaged or missing."""
    try:
        return fs.cat_file(file)
    except (CorruptObjectError, MissingLedgerError):
        return None


def test_damage_is_an_error_and_all_else_is_fine(truncated_url: str, golden: Path, tmp_path: Path) -> None:
    folder = tmp_path / "damaged"
    shutil.copytree(truncated_url.removeprefix("file://"), folder)
    for path in (golden / "bucket").glob("*-ledger-26*"):
        shutil.copy(path, folder)
    broken = make_ledger(7)
    (key,) = (key for key in broken.objects if not key.endswith("-index"))
    put_in_folder(folder, broken, make_ledger(8))
    data = bytearray(broken.data)
    data[40_000:40_300] = bytes(300)
    (folder / key).write_bytes(data)
    whole, lost = (offload([frame(metadata(), b"x")], number, uuid=number, name=LOSSY) for number in (1, 2))
    put_in_folder(folder, whole, lost)
    (folder / key_of(lost)).unlink()
    (folder / key_of(offload([b"x"], 3, uuid=3), "-index")).write_bytes(b"nonsense")
    fs = LedgerFileSystem(fo=str(folder), target_protocol="file", cache_dir=str(tmp_path / "other"))
    wrong = set()
    with mounted(tmp_path, f"file://{folder}") as mount:
        for file in fs.find(""):
            wanted = content_of(fs, file)
            done = mount.run(f"cat {file}", 1 if wanted is None else 0)
            if wanted is None:
                assert number_of(done) == errno.EIO
                wrong.add(file)
            else:
                assert done.stdout == wanted
        lines = [line for line in mount.log if line.startswith("ERROR")]
        assert mount.run("cat entries/public/golden/plain/26.entries; cp -r entries/public/golden ../copied")
        # What cannot be rendered is there all the same.
        assert int(mount.output(f"stat -c %s jsonl/{TOPIC}/7.jsonl")) == len(broken.data)
        # Whoever copies, or opens by a pattern, a topic of which a part is lost ends with an error, not with the rest.
        for number, topic in enumerate((TOPIC, "public/lossy/orders")):
            for view in ("jsonl", "parquet", *(["entries"] if number else [])):
                assert number_of(mount.run(f"cp -r {view}/{topic} ../copy-{view}-{number}", 1)) == errno.EIO
            with pytest.raises(duckdb.Error, match="Input/output error"):
                duckdb.sql(f"SELECT count(*) FROM '{mount.path}/parquet/{topic}/*.parquet'").fetchall()
        assert (mount.path / "entries/public/lossy/orders/2.entries").stat().st_size == len(lost.records)
        assert any("in this bucket is unknown (ids 3)" in line for line in mount.log)
    assert wrong, fs.find("")
    assert f"jsonl/{TOPIC}/7.jsonl" in wrong
    assert {"info/public/lossy/orders/2.json", "entries/public/lossy/orders/2.entries"} <= wrong
    assert not any("/26." in file or "/8." in file for file in wrong)
    assert lines
    assert all("ledger-" in line or "entry " in line for line in lines), lines
