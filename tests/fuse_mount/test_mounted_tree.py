"""A mounted bucket read with ordinary tools: the same bytes as through fsspec, sizes that are true, and names as the tree has them."""

import errno
import mmap
import os
import random
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ledgerfs.fsspec_impl import LedgerFileSystem
from tests.support.entries import frame, metadata
from tests.support.lacking import key_of, lossy_folder
from tests.support.ledgers import offload, put_in_folder
from tests.support.mounts import Mount, mounted, number_of
from tests.support.s3 import S3Server

VIEWS = ("arrow", "entries", "info", "jsonl", "parquet")
GOLDEN = "public/golden"
ENTRY = frame(metadata(sequence_id=1), b"hello")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mounted-tree")


@pytest.fixture(scope="module")
def mount(folder: Path, golden_url: str) -> Iterator[Mount]:
    with mounted(folder, golden_url) as made:
        yield made


@pytest.fixture(scope="module")
def fs(golden: Path, folder: Path) -> LedgerFileSystem:
    return LedgerFileSystem(fo=f"{golden}/bucket", target_protocol="file", cache_dir=str(folder / "fs-cache"))


def content_of(fs: LedgerFileSystem, path: str) -> bytes | int:
    """Return what fsspec reads, or the errno that it ends with."""
    try:
        return fs.cat_file(path)
    except OSError as error:
        return error.errno or 0


def content_at(path: Path) -> bytes | int:
    try:
        return path.read_bytes()
    except OSError as error:
        return error.errno or 0


def test_the_whole_tree_is_that_of_fsspec(mount: Mount, fs: LedgerFileSystem) -> None:
    shown = {path.relative_to(mount.path).as_posix() for path in mount.path.rglob("*")}
    assert shown == {*fs.find("", withdirs=True)} - {""}
    files = fs.find("")
    assert len(files) == 5 * 104
    wrong = [file for file in files if content_at(mount.path / file) != content_of(fs, file)]
    assert wrong == []
    unreadable = {file.split("/")[3] for file in files if isinstance(content_of(fs, file), int)}
    assert unreadable == {"encrypted"}


FRESH = {
    "stat": "wc -c < {f}; cat {f} | wc -c; stat -c %s {f}",
    "cat": "cat {f} | wc -c; stat -c %s {f}; ls -l {f} | cut -d' ' -f5",
    "cp": "cp {f} ../copy; stat -c %s ../copy; stat -c %s {f}; cmp ../copy {f} >&2 && wc -c < ../copy",
    "dd": "dd if={f} bs=7 status=none | wc -c; wc -c < {f}; find {f} -printf '%s\\n'",
    "tail": "tail -c 10 {f} > ../end; s=$(stat -c %s {f}); echo $s; dd if={f} bs=1 skip=$((s - 10)) status=none | cmp - ../end >&2; "
    "cat {f} | wc -c; tail -c +1 {f} | wc -c",
    "sum": "sha256sum < {f} > ../sum; cat {f} | sha256sum | cmp - ../sum >&2; for i in 1 2 3; do du -b {f} | cut -f1; done",
    "cp -r": "rm -rf ../all; cp -r $(dirname {f}) ../all; stat -c %s ../all/$(basename {f}) {f}; cat ../all/$(basename {f}) | wc -c",
    "head": "head -c 5 {f} | wc -c | grep -qx 5; wc -c < {f}; grep -c '' {f} > /dev/null; cat {f} | wc -c; stat -c %s {f}",
    "grep": "grep -a '' {f} | cmp - <(cat {f}; [ -z \"$(tail -c 1 {f} | tr -d '\\n\\0')\" ] || echo) >&2 || true; "
    "tail -n +1 {f} | wc -c; wc -c < {f}; stat -c %s {f}",
    "python": "{python} -c \"d = open('{f}', 'rb').read(); print(len(d), end=' ')\"; cat {f} | wc -c; stat -c %s {f}",
    "mmap": "{python} -c \"import mmap; f = open('{f}', 'rb'); m = mmap.mmap(f.fileno(), 0, prot=1); print(len(m[:]), end=' ')\"; "
    "cat {f} | wc -c; stat -c %s {f}",
}


@pytest.fixture(scope="module")
def fresh(folder: Path) -> Iterator[Mount]:
    """A bucket of which nothing was ever rendered, a topic of two ledgers for each tool."""
    (folder / "fresh").mkdir()
    for number in range(len(FRESH)):
        entries = [frame(metadata(sequence_id=i), b"%d" % i * 50) for i in range(20 + number)]
        name = f"public/default/persistent/fresh-{number}"
        for ledger in (100 + number, 200 + number):
            put_in_folder(folder / "fresh", offload(entries, ledger, uuid=ledger, name=name))
    with mounted(folder / "fresh-mount", f"file://{folder}/fresh") as made:
        yield made


@pytest.mark.parametrize("tool", FRESH)
@pytest.mark.parametrize("view", VIEWS)
def test_files_are_read_to_their_end_also_if_their_size_was_an_estimate(fresh: Mount, tool: str, view: str) -> None:
    """Of the first ledger the kernel has an estimate, of the second nothing."""
    number = list(FRESH).index(tool)
    for ledger in (100 + number, 200 + number):
        path = f"{view}/public/default/fresh-{number}/{ledger}.{'json' if view == 'info' else view}"
        if ledger < 200:
            assert int(fresh.output(f"stat -c %s {path}")) > 0
        command = FRESH[tool].format(f=path, python=sys.executable)
        said = fresh.output("set -e -o pipefail; " + command).split()
        assert len(said) == 3, said
        assert len(set(said)) == 1, said
        assert int(said[0]) == len((fresh.path / path).read_bytes()) > 100


@pytest.mark.parametrize("timeout", [0.0, 0.001, 60.0])
def test_no_reader_is_cut_off_while_others_ask_for_sizes(tmp_path: Path, timeout: float) -> None:
    """In each round all files are rendered again, and the kernel has estimates, which it may have asked for before the file was opened."""
    (tmp_path / "bucket").mkdir()
    for ledger in range(1, 13):
        entries = [frame(metadata(sequence_id=i), b"%d" % i * 50) for i in range(20 * ledger)]
        put_in_folder(tmp_path / "bucket", offload(entries, ledger, uuid=ledger))
    fs = LedgerFileSystem(fo=str(tmp_path / "bucket"), target_protocol="file", cache_dir=str(tmp_path / "other"))
    wanted = {path: fs.cat_file(path) for view in ("jsonl", "parquet") for path in fs.find(view)}
    with mounted(tmp_path, f"file://{tmp_path}/bucket", fuse={"attr_timeout": timeout}) as mount:
        is_over = threading.Event()

        def ask(seed: int) -> int:
            source, asked = random.Random(seed), 0
            while not is_over.is_set():
                path = mount.path / source.choice(list(wanted))
                asked += 1 if source.random() < 0.9 else len([one.stat() for one in path.parent.iterdir()])
                assert path.stat().st_size > 0
            return asked

        def is_read(path: str) -> bool:
            return (mount.path / path).read_bytes() == wanted[path]

        with ThreadPoolExecutor(8) as pool:
            asking = [pool.submit(ask, seed) for seed in range(4)]
            try:
                for _ in range(6):
                    assert all(pool.map(is_read, wanted))
                    mount.wait_until_all_is_closed()
                    for path in (tmp_path / "cache" / "files").glob("*.file"):
                        path.unlink()
            finally:
                is_over.set()
            assert all(one.result() > 0 for one in asking)


LIBRARIES = """
import sys
from pathlib import Path
import duckdb, polars, pyarrow as pa, pyarrow.parquet as pq
way, files = sys.argv[1], sorted(Path(sys.argv[2]).iterdir())
if way == "duckdb":
    rows = [duckdb.sql(f"SELECT count(*) FROM '{file}'").fetchall()[0][0] for file in files]
elif way == "polars":
    rows = [polars.read_parquet(file).height for file in files]
elif way == "polars scan":
    rows = [polars.scan_parquet(file, glob=False).select(polars.len()).collect().item() for file in files]
elif way == "mapped":
    rows = [pa.ipc.open_file(pa.memory_map(str(file))).read_all().num_rows for file in files]
else:
    rows = [pq.read_table(file, memory_map=way == "arrow mapped").num_rows for file in files]
print(*rows)
"""


def test_tables_are_read_by_libraries_after_they_were_listed(golden_url: str, tmp_path: Path) -> None:
    """Each in a process of its own, which is the first that opens them: also where it maps them."""
    wanted = None
    for way in ("arrow", "arrow mapped", "polars", "polars scan", "duckdb", "mapped"):
        place = tmp_path / way.replace(" ", "-")
        with mounted(place, golden_url) as mount:
            folder = f"{'arrow' if way == 'mapped' else 'parquet'}/{GOLDEN}/plain"
            mount.run(f"ls -l {folder}; find {folder} -size +1; du -b {folder}; stat {folder}/*")
            done = subprocess.run(
                [sys.executable, "-c", LIBRARIES, way, mount.path / folder], capture_output=True, check=False
            )
            assert done.returncode == 0, (way, done.stderr.decode())
            wanted = wanted or done.stdout
            assert done.stdout == wanted != b"", way


def test_listing_with_sizes_costs_no_request_and_renders_nothing(s3: S3Server, s3_golden: str, tmp_path: Path) -> None:
    with mounted(tmp_path, s3_golden, s3.options) as mount:
        before = mount.requests()
        found = mount.output(
            "ls; ls -R > ../listed; find . -type f | wc -l; find . -type d -name '*plain*' | wc -l; find entries -ls | wc -l"
        )
        assert found.split()[-3:-1] == ["520", "5"]
        mount.output(
            "ls -lR; du -s; find -size +1M; find -type f -exec stat {} + ; stat -f .; df .; getfattr -d . || true"
        )
        assert mount.requests() == before
        assert not list((tmp_path / "cache").glob("files/*.file"))
        mount.run(f"head -n 1 jsonl/{GOLDEN}/plain/26.jsonl")
        assert mount.requests() > before
        assert len(list((tmp_path / "cache").glob("files/*.file"))) == 1


@pytest.fixture(scope="module")
def odd(folder: Path) -> Iterator[Mount]:
    """A bucket of names that are hard on tools."""
    made = folder / "odd"
    made.mkdir()
    names = [
        "tenant/cluster/space/persistent/v1-topic",
        "public/default/persistent/gr%C3%BC%C3%9Fe%2B%26%25+x",
        "public/default/persistent/" + "%C3%BC" * 50,
        "public/default/persistent/" + "x" * 1100,
        "public/default/persistent/5.entries",
        "public/default/persistent/-rf",
        "public/default/persistent/with%20space%0Aand%0Aline",
        "no managed ledger of a topic/..",
        None,
    ]
    for number, name in enumerate(names, 10):
        put_in_folder(made, offload([ENTRY], number, uuid=number, name=name))
    put_in_folder(made, offload([ENTRY, ENTRY], 10, uuid=99, name=names[0]))
    os.utime(made / "00000000-0000-0000-0000-000000000063-ledger-10-index", (2e9, 2e9))
    with mounted(folder / "odd-mount", f"file://{made}") as mount:
        yield mount


def test_odd_names_are_those_of_the_tree(odd: Mount, folder: Path) -> None:
    fs = LedgerFileSystem(fo=str(folder / "odd"), target_protocol="file")
    files = [file for file in fs.find("entries") if "x" * 1100 not in file]
    assert len(files) == 9
    assert {
        path.relative_to(odd.path).as_posix() for path in (odd.path / "entries").rglob("*.entries") if path.is_file()
    } == set(files)
    for file in files:
        assert (odd.path / file).read_bytes() == fs.cat_file(file)
    text = " ".join(files)
    for part in (
        "tenant/cluster%2Fspace/v1-topic/10.entries",
        "/10@00000000-0000-0000-0000-00000000000a.entries",
        "_other/",
        "_unknown/",
        "%2B",
    ):
        assert part in text, text
    size = sum(fs.size(file) for file in files)
    assert odd.output("find entries -type f | wc -l; find entries -type f -exec cat {} + | wc -c").split()[-1] == str(
        size
    )
    # What has more bytes than Linux takes would keep it from listing all the rest; it is not kept secret.
    assert any("x" * 1100 in line for line in odd.log)


def test_names_that_are_too_long_or_not_there(odd: Mount) -> None:
    topic = odd.path / "entries/public/default/5.entries"
    for name, number in {
        "x" * 255: errno.ENOENT, "x" * 4096: errno.ENAMETOOLONG, "14": errno.ENOENT, "014.entries": errno.ENOENT, "14.jsonl": errno.ENOENT,
        "14.entries/x": errno.ENOTDIR, "x/../14.entries": errno.ENOENT, "\udcff": errno.ENOENT,
        "14@00000000-0000-0000-0000-00000000000e.entries": errno.ENOENT,
    }.items():  # fmt: skip
        with pytest.raises(OSError) as refused:
            Path(f"{topic}/{name}").stat()
        assert refused.value.errno == number, name
    assert os.statvfs(odd.path).f_namemax == 1024
    assert (topic / ".." / "5.entries" / "." / "14.entries").read_bytes() == (topic / "14.entries").read_bytes()
    # What was not there is looked for again.
    assert not (topic / "15.entries").exists()


def entries_of(mount: Mount, topic: str) -> list[Path]:
    return sorted((mount.path / "entries" / GOLDEN / topic).iterdir(), key=lambda path: path.stat().st_size)


def test_attributes(mount: Mount, fs: LedgerFileSystem, golden_url: str, tmp_path: Path) -> None:
    seen: dict[int, Path] = {}
    for path in [mount.path, *(mount.path / "entries").rglob("*")]:
        found = path.stat()
        assert found.st_nlink == (2 if path.is_dir() else 1)
        assert stat.S_IMODE(found.st_mode) == (0o555 if path.is_dir() else 0o444)
        assert (found.st_uid, found.st_gid) == (os.getuid(), os.getgid())
        assert found.st_ino not in seen
        seen[found.st_ino] = path
        if path.is_file():
            info = fs.info(path.relative_to(mount.path).as_posix())
            assert found.st_size == info["size"]
            assert found.st_mtime == found.st_atime == fs.modified(path.relative_to(mount.path).as_posix()).timestamp()
            assert found.st_blocks == -(-found.st_size // 512)
    for folder in (mount.path, mount.path / "entries" / GOLDEN, mount.path / "jsonl" / GOLDEN / "plain"):
        with os.scandir(folder) as entries:
            for entry in entries:
                assert entry.is_dir(follow_symlinks=False) == (folder.name != "plain")
                assert entry.inode() == Path(entry.path).stat().st_ino
    with mounted(tmp_path, golden_url) as again:
        for number, path in list(seen.items())[::20]:
            assert (again.path / path.relative_to(mount.path)).stat().st_ino == number
    totals = os.statvfs(mount.path)
    assert totals.f_files == 104
    assert totals.f_blocks * totals.f_frsize >= sum(topic.bytes for topic in fs.bucket.topics())
    assert totals.f_flag & os.ST_RDONLY


def test_extended_attributes(mount: Mount, fs: LedgerFileSystem) -> None:
    ref = fs.bucket.ledger(26).ref
    for view, suffix in (("entries", "entries"), ("parquet", "parquet"), ("info", "json")):
        path = mount.path / view / GOLDEN / "plain" / f"26.{suffix}"
        names = os.listxattr(path)
        values = {name.removeprefix("user.ledgerfs."): os.getxattr(path, name).decode() for name in names}
        wanted = {
            "ledger_id": "26",
            "uuid": ref.uuid,
            "topic": ref.topic,
            "entries": str(ref.entries),
            "data_key": ref.object("data").key,
        }
        assert values.items() >= wanted.items()
        assert values["data_version"] == ref.object("data").version
        assert values["index_version"] == ref.object("index").version
    for name in ("user.ledgerfs.nothing", "user.other"):
        with pytest.raises(OSError) as refused:
            os.getxattr(path, name)
        assert refused.value.errno == errno.ENODATA
    assert os.listxattr(mount.path / "entries" / GOLDEN) == []


def test_reads_anywhere(mount: Mount, fs: LedgerFileSystem) -> None:
    path = mount.path / "entries" / GOLDEN / "blocks" / "42.entries"
    data = fs.cat_file(f"entries/{GOLDEN}/blocks/42.entries")
    source = random.Random(4)
    file = os.open(path, os.O_RDONLY)
    direct = os.open(path, os.O_RDONLY | os.O_DIRECT)
    try:
        for number in range(400):
            at = source.choice(
                [source.randrange(len(data)), len(data) - source.randrange(9), len(data) + source.randrange(9)]
            )
            size = source.choice([0, 1, 12, 4096, 100_000, 3 << 20])
            if number % 10 == 0:
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            assert os.pread(file if number % 2 else direct, size, at) == data[at : at + size], (at, size)
        assert os.pread(file, 0, 0) == os.pread(file, 10, len(data)) == os.pread(file, 10, 1 << 40) == b""
        assert os.lseek(file, -5, os.SEEK_END) == len(data) - 5
        assert os.read(file, 100) == data[-5:]
        assert os.lseek(file, 0, os.SEEK_DATA) == 0
        assert os.lseek(file, 0, os.SEEK_HOLE) == len(data)
        with pytest.raises(OSError) as refused:
            os.lseek(file, len(data), os.SEEK_DATA)
        assert refused.value.errno == errno.ENXIO
        with mmap.mmap(file, 0, prot=mmap.PROT_READ) as mapped:
            assert len(mapped) == len(data)
            assert mapped[5_000_000:5_100_000] == data[5_000_000:5_100_000]
            assert mapped[:] == data
        buffers = [bytearray(100), bytearray(5000)]
        assert os.preadv(file, buffers, 77) == 5100
        assert b"".join(buffers) == data[77:5177]
    finally:
        os.close(file)
        os.close(direct)
    mount.run(f"dd if={path} bs=1000 skip=5000 count=7 status=none > ../part")
    assert (mount.path.parent / "part").read_bytes() == data[5_000_000:5_007_000]


def test_many_read_one_file_and_many(mount: Mount, fs: LedgerFileSystem) -> None:
    path = mount.path / "entries" / GOLDEN / "blocks" / "99.entries"
    data = fs.cat_file(f"entries/{GOLDEN}/blocks/99.entries")
    others = [
        file for file in fs.find("") if file.startswith(("entries", "jsonl", "info")) and "encrypted" not in file
    ][::9]

    def read(number: int) -> bool:
        source = random.Random(number)
        if number % 3 == 0:
            return path.read_bytes() == data
        if number % 3 == 1:
            return all((mount.path / file).read_bytes() == fs.cat_file(file) for file in source.sample(others, 5))
        with path.open("rb", buffering=0) as file:
            starts = [source.randrange(len(data)) for _ in range(40)]
            return all(os.pread(file.fileno(), 9000, at) == data[at : at + 9000] for at in starts)

    with ThreadPoolExecutor(24) as pool:
        assert all(pool.map(read, range(24)))
    mount.wait_until_all_is_closed()
    assert mount.ask("stats")["open"] == []


READ_ONLY = (
    "touch {f}", "touch {d}/new", "rm {f}", "rmdir {d}", "mkdir {d}/new", "mv {f} {d}/new", "truncate -s 1 {f}", "chmod 600 {f}",
    "ln {f} {d}/new", "ln -s x {d}/new", "mkfifo {d}/new", "cp /etc/passwd {d}/5.entries", "chown 5 {f}", "touch new",
    "dd if=/dev/zero of={f} count=1 conv=notrunc", "echo >> {f}", "echo > {f}", "exec 7<> {f}", "rm -r entries/public",
)  # fmt: skip


@pytest.mark.parametrize("command", READ_ONLY)
def test_a_mount_for_reading_is_read_only(mount: Mount, command: str) -> None:
    folder = f"entries/{GOLDEN}/plain"
    assert number_of(mount.run(command.format(f=f"{folder}/26.entries", d=folder), None)) == errno.EROFS


def test_an_object_that_was_replaced_is_read_anew_whatever_it_looks_like(tmp_path: Path) -> None:
    """The same size, and the same index, whose time is the file's: the kernel cannot tell one from the other."""
    bucket = lossy_folder(tmp_path / "bucket")
    before, after = (offload([frame(metadata(sequence_id=1), text)], 1, uuid=1) for text in (b"hello", b"jello"))
    assert (before.index, len(before.data)) == (after.index, len(after.data))
    bucket.put(before)
    with mounted(tmp_path, bucket.url) as mount:
        files = [next((mount.path / view / "public/default/orders").iterdir()) for view in VIEWS]
        for _ in range(2):
            read = [file.read_bytes() for file in files]
        assert read[VIEWS.index("entries")] == before.records
        new = tmp_path / "new"
        new.write_bytes(after.data)
        new.replace(tmp_path / "bucket" / key_of(after))
        mount.ask("refresh")
        again = [file.read_bytes() for file in files]
        assert again[VIEWS.index("entries")] == after.records
        fs = LedgerFileSystem(fo=str(tmp_path / "bucket"), target_protocol="file", cache_dir=str(tmp_path / "other"))
        for view, file, one, other in zip(VIEWS, files, read, again, strict=True):
            assert other == fs.cat_file(f"{view}/public/default/orders/{file.name}")
            assert one != other
