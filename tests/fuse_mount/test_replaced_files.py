"""A file changes while somebody has it open: its reader gets old bytes or an error, new readers the new bytes, and nobody a mixture.

The kernel has one page cache and one size for both.
"""

import ctypes
import errno
import mmap
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from ledgerfs.fsspec_impl import LedgerFileSystem
from tests.support.entries import frame, metadata
from tests.support.ledgers import Offload, offload, put_in_folder
from tests.support.mounts import Mount, mounted

ENTRIES = 2500
READ = 300_000
HANGING = 300
"""Seconds after which something hangs."""

TRANSACTION = {"transaction_most": 1, "transaction_least": 1}
KINDS = ("late marker", "same size", "shorter", "longer")
SOON = 0.1
"""Seconds for which the kernel may keep what it was told of a file, where it soon asks again."""


@cache
def frames(text: str, entries: int = ENTRIES) -> list[bytes]:
    """Return the entries of a ledger, of some 3 MB; the first message is of a transaction."""
    first = frame(metadata(sequence_id=0, **TRANSACTION), b"000000" * 200)
    return [first, *(frame(metadata(sequence_id=i), f"{text}{i:05}".encode() * 200) for i in range(1, entries))]


@dataclass(frozen=True)
class Bucket:
    """A mounted bucket, in which each test has a topic of its own."""

    mount: Mount
    folder: Path
    scratch: Path
    numbers: "count[int]"


@dataclass(frozen=True)
class Changing:
    """A mounted file with two versions."""

    bucket: Bucket
    kind: str
    number: int
    old: bytes

    @property
    def mount(self) -> Mount:
        return self.bucket.mount

    @property
    def scratch(self) -> Path:
        """A folder for files of the test."""
        return self.bucket.scratch

    @property
    def topic(self) -> str:
        return f"orders-{self.number}"

    @property
    def path(self) -> str:
        view = "jsonl" if self.kind == "late marker" else "entries"
        return f"{view}/public/default/{self.topic}/{self.number}.{view}"

    @property
    def file(self) -> Path:
        return self.mount.path / self.path

    def made(self, text: str, entries: int = ENTRIES) -> Offload:
        """Return a version of the ledger."""
        name = f"public/default/persistent/{self.topic}"
        return offload(frames(text, entries), self.number, uuid=self.number, name=name)

    def put(self, ledger: Offload) -> bytes:
        """Put a ledger into the bucket, and have it listed; returns the bytes that the file has now."""
        put_in_folder(self.bucket.folder, ledger)
        self.mount.ask("refresh")
        return content(self)

    def change(self) -> bytes:
        """Replace the file in the bucket, and have the bucket listed; returns the new bytes."""
        if self.kind == "late marker":
            marker = frame(metadata(sequence_id=0, marker_type=21, **TRANSACTION), b"")
            number = next(self.bucket.numbers)
            return self.put(offload([marker], number, uuid=number, name=f"public/default/persistent/{self.topic}"))
        entries = {"shorter": ENTRIES // 10, "longer": ENTRIES * 2}.get(self.kind, ENTRIES)
        return self.put(self.made("b", entries))


def content(one: Changing) -> bytes:
    """Return a file's bytes without a mount."""
    cache_dir = one.scratch / f"cache-{next(one.bucket.numbers)}"
    fs = LedgerFileSystem(
        fo=str(one.bucket.folder), target_protocol="file", cache_dir=str(cache_dir), skip_instance_cache=True
    )
    return bytes(fs.cat_file(one.path))


@contextmanager
def mounted_bucket(folder: Path, fuse: dict[str, float]) -> Iterator[Bucket]:
    for name in ("bucket", "scratch"):
        (folder / name).mkdir()
    with mounted(folder, str(folder / "bucket"), refresh_seconds=3600, fuse=fuse) as mount:
        yield Bucket(mount, folder / "bucket", folder / "scratch", count(1))


@contextmanager
def changing_file(bucket: Bucket, kind: str) -> Iterator[Changing]:
    """Put a ledger whose file can change in one of the ``KINDS`` into a bucket."""
    unread = Changing(bucket, kind, next(bucket.numbers), b"")
    one = replace(unread, old=unread.put(unread.made("a")))
    yield one
    one.mount.wait_until_all_is_closed()


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    """A bucket of which the kernel keeps for an hour what it was told."""
    with mounted_bucket(tmp_path_factory.mktemp("kept"), {}) as made:
        yield made


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    """A bucket of which the kernel soon asks again."""
    with mounted_bucket(tmp_path_factory.mktemp("asked"), {"attr_timeout": SOON}) as made:
        yield made


@pytest.fixture(params=KINDS)
def changing(request: pytest.FixtureRequest, kept: Bucket) -> Iterator[Changing]:
    with changing_file(kept, request.param) as one:
        yield one


def rest_of(file: int, size: int = 65536) -> tuple[bytes, int]:
    """Return what can still be read of a file, and the error's number; 0 at its end."""
    rest = b""
    try:
        while part := os.read(file, size):
            rest += part
    except OSError as error:
        return rest, error.errno or 0
    return rest, 0


def require_old(changing: Changing, file: int, begun: bytes) -> None:
    """See that a reader of the old file gets its bytes, all of them or an error."""
    rest, number = rest_of(file)
    assert changing.old.startswith(begun + rest)
    assert number == errno.ESTALE or begun + rest == changing.old
    assert number in {0, errno.ESTALE}


def begin(changing: Changing) -> tuple[int, bytes]:
    file = os.open(changing.file, os.O_RDONLY)
    return file, os.read(file, READ)


def read_anew(changing: Changing) -> bytes:
    return changing.file.read_bytes()


def copied(changing: Changing) -> bytes:
    """Copy with ``sendfile``, which goes through the page cache."""
    target = changing.scratch / "copy"
    shutil.copyfile(changing.file, target)
    return target.read_bytes()


def shared(changing: Changing) -> bytes:
    """Map as most libraries do: refused while an old version is open, or right."""
    with changing.file.open("rb") as file:
        try:
            with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
                return mapped[:]
        except OSError as error:
            assert error.errno == errno.ENODEV  # noqa: PT017
            return file.read()


def by_another(changing: Changing) -> bytes:
    return changing.mount.run(f"cat {changing.file}").stdout


def past_the_cache(changing: Changing) -> bytes:
    return changing.mount.run(f"dd if={changing.file} bs=64K iflag=direct status=none").stdout


READERS = (read_anew, copied, shared, by_another, past_the_cache)


@contextmanager
def locked_in_memory(path: Path) -> Iterator[None]:
    """Keep a file's pages, which the kernel drops otherwise when memory is short."""
    kernel = ctypes.CDLL(None, use_errno=True)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        first = np.frombuffer(mapped, np.uint8)
        try:
            if kernel.mlock(ctypes.c_void_p(first.ctypes.data), ctypes.c_size_t(len(mapped))):
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number), path)
            yield
        finally:
            # What lies on a map keeps it from being closed; that unlocks it.
            del first


def test_two_versions_are_never_mixed(changing: Changing) -> None:
    old = [begin(changing) for _ in READERS]
    new = changing.change()
    assert new != changing.old
    for reader, (file, begun) in zip(READERS, old, strict=True):
        assert reader(changing) == new
        require_old(changing, file, begun)
        assert changing.file.stat().st_size == len(new)
        with pytest.raises(OSError) as refused:
            os.pread(file, 4096, len(new) + 4096)
        assert refused.value.errno == errno.ESTALE
    for file, _ in old:
        os.close(file)
    changing.mount.wait_until_all_is_closed()
    assert read_anew(changing) == new
    if changing.file.suffix != ".entries":
        return
    with locked_in_memory(changing.file):
        before = changing.mount.ask("stats")["bytes"]
        for reader in READERS[:-1]:
            assert reader(changing) == new
        assert changing.mount.ask("stats")["bytes"] == before, "it is cached again"


@pytest.mark.parametrize("kind", ["shorter", "longer"])
def test_a_size_that_is_reported_ends_no_other_version(asked: Bucket, kind: str) -> None:
    """Also if nobody opens the new one."""
    for command in ("stat", "ls -l", "test -s"):
        with changing_file(asked, kind) as changing:
            file, begun = begin(changing)
            new = changing.change()
            # Longer than the kernel keeps what it was told before.
            time.sleep(2 * SOON)
            changing.mount.run(f"{command} {changing.file if command != 'ls -l' else changing.file.parent}")
            with pytest.raises(OSError) as refused:
                os.pread(file, 4096, len(changing.old) - 10)
            assert refused.value.errno == errno.ESTALE, command
            require_old(changing, file, begun)
            assert changing.file.stat().st_size == len(new), command
            os.close(file)
            changing.mount.wait_until_all_is_closed()
            assert read_anew(changing) == new, command


MAP = (
    "import mmap, sys\n"
    "file = open(sys.argv[1], 'rb')\n"
    "mapped = mmap.mmap(file.fileno(), 0, flags=getattr(mmap, sys.argv[2]), prot=mmap.PROT_READ)\n"
    "begun = mapped[:int(sys.argv[3])]\n"
    "print('begun', flush=True)\n"
    "input()\n"
    "sys.stdout.buffer.write(mapped[:])\n"
)
"""Maps a file, reads so many bytes of it, and after a line of input all of them."""


def mapping(changing: Changing, flags: str, size: int) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-c", MAP, changing.file, flags, str(size)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_an_old_mapping_ends_with_a_signal(kept: Bucket, kind: str) -> None:
    """Not with other bytes, which it would be given from the page cache, nobody asking us."""
    for reader in (read_anew, copied):
        with changing_file(kept, kind) as changing:
            old = mapping(changing, "MAP_SHARED", READ)
            assert old.stdout is not None
            assert old.stdout.readline() == b"begun\n"
            new = changing.change()
            assert reader(changing) == new
            given, _ = old.communicate(b"\n", timeout=HANGING)
            assert (old.returncode, given) == (-signal.SIGBUS, b""), reader


def test_the_new_version_is_not_mapped_while_the_old_one_is_open(changing: Changing) -> None:
    """Its pages would be those of the old one's reader, too."""
    file, begun = begin(changing)
    new = changing.change()
    private = mapping(changing, "MAP_PRIVATE", READ)
    assert private.communicate(b"\n", timeout=HANGING)[0] == b""
    assert private.returncode == -signal.SIGBUS
    refused = mapping(changing, "MAP_SHARED", READ)
    assert os.strerror(errno.ENODEV).encode() in refused.communicate(b"\n", timeout=HANGING)[1]
    with changing.file.open("rb") as source, (changing.scratch / "sent").open("wb") as target:
        with pytest.raises(OSError) as unsent:
            os.sendfile(target.fileno(), source.fileno(), 0, 1 << 20)
        assert unsent.value.errno == errno.EINVAL
    require_old(changing, file, begun)
    os.close(file)
    changing.mount.wait_until_all_is_closed()
    for flags in ("MAP_PRIVATE", "MAP_SHARED"):
        assert mapping(changing, flags, READ).communicate(b"\n", timeout=HANGING)[0] == b"begun\n" + new


def test_a_third_version_replaces_both(changing: Changing) -> None:
    first, begun = begin(changing)
    second_bytes = changing.change()
    second = os.open(changing.file, os.O_RDONLY)
    second_begun = os.read(second, READ)
    third_bytes = changing.put(changing.made("c"))
    assert read_anew(changing) == third_bytes
    require_old(changing, first, begun)
    rest, number = rest_of(second)
    assert second_bytes.startswith(second_begun + rest)
    assert number == errno.ESTALE or second_begun + rest == second_bytes
    third = os.open(changing.file, os.O_RDONLY)
    for file in (first, second):
        os.close(file)
    assert rest_of(third) == (third_bytes, 0)
    assert read_anew(changing) == third_bytes
    os.close(third)
