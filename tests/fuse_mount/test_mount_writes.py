"""Ledgers are written by copying files in: whole or not at all, whatever befalls the tool; and what cannot be a ledger is refused."""

import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledgerfs.fuse_mount import processes
from tests.support.ledgers import offload, put_in_folder
from tests.support.mounts import PATIENCE, PATIENT, Mount, mounted, number_of
from tests.support.s3 import Fault, FaultProxy, S3Server
from tests.support.waiting import wait_until
from tests.support.writes import BLOCK, Place, big_entries, folder_place, records, s3_place

ENTRIES = [b"x" * 1012] * 300
RECORDS = records(ENTRIES)
"""300 records of 1 KiB: wherever a tool that takes 1 KiB at a time ends, it is the end of a record, and would make a ledger."""

FIRST = records([b"one", b"two"])
TOPIC = "entries/public/default/orders"
FILE = f"{TOPIC}/20.entries"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("mount-writes")
    (made / "small").write_bytes(RECORDS)
    (made / "large").write_bytes(records(big_entries(4)))
    (made / "first").write_bytes(RECORDS[: 1024 * 100])
    (made / "rest").write_bytes(RECORDS[1024 * 100 :])
    return made


@pytest.fixture(scope="module")
def place(folder: Path) -> Place:
    made = folder_place(folder / "bucket")
    put_in_folder(folder / "bucket", offload([b"one", b"two"], 1))
    return made


@pytest.fixture(scope="module")
def mount(folder: Path, place: Place) -> Iterator[Mount]:
    with mounted(folder, place.url, is_writable=True, block_size=BLOCK) as made:
        yield made


@pytest.fixture
def bucket(place: Place, mount: Mount) -> Iterator[Place]:
    """The bucket with but ledger 1, before and after."""
    yield place
    for path in mount.path.glob("entries/*/*/*/*.entries"):
        if path.name != "1.entries":
            path.unlink()
    assert records_of(place) == {1: FIRST}
    mount.wait_until_all_is_closed()


def records_of(place: Place) -> dict[int, bytes]:
    """Return the records of all ledgers that anybody sees; there is nothing else in the bucket, and no upload that was begun."""
    catalog = place.clean.refresh()
    assert not place.uploads()
    readers = [place.clean.reader(catalog.ref(row)) for row in range(len(catalog.ledgers))]
    assert len(place.objects()) == 2 * len(readers)
    return {one.ref.ledger_id: one.records().read(0, one.records_size) for one in readers}


WAYS = {
    "cp": "cp ../small {to}",
    "cp -p": "cp -p ../small {to}",
    "cp of four blocks": "cp ../large {to}",
    "cat": "cat ../small > {to}",
    "appended to nothing": "cat ../small >> {to}",
    "dd": "dd if=../small of={to} bs=1000 status=none",
    "dd with fsync": "dd if=../small of={to} bs=7777 conv=fsync,excl status=none",
    "tee": "tee < ../small {to} > /dev/null",
    "install": "install -m 644 ../small {to}",
    "head": "cat ../small ../small | head -c 307200 > {to}",
    "mv": "cp ../small ../gone; mv ../gone {to}",
    "two children": "(cat ../first; cat ../rest) > {to}",
    "two children and an end": "(cat ../first; cat ../rest; true) > {to}",
    "the shell itself": "{{ cat ../first; cat ../rest; }} > {to}",
    "a redirection between": "{{ cat ../first; {{ echo other; }} > ../other; cat ../rest; }} > {to}",
    "a child behind": "{{ cat ../first; (sleep 0.3; cat ../rest) & }} > {to}; wait",
    "a descriptor": "exec 7> {to}; cat ../first >&7; cat ../rest >&7; exec 7>&-",
    "a copy of it": "exec 7> {to} 8>&7; cat ../first >&7; exec 7>&-; cat ../rest >&8",
}


def test_a_file_becomes_a_ledger_by_all_that_tools_do(mount: Mount, bucket: Place, folder: Path) -> None:
    for way, command in WAYS.items():
        mount.run(command.format(to=FILE))
        wanted = (folder / ("large" if "blocks" in way else "small")).read_bytes()
        # Where it was written it is seen at once; the end of a process is not waited for by whoever waits for the process's parent.
        wait_until(lambda: mount.output(f"ls {TOPIC}").split() == ["1.entries", "20.entries"], PATIENCE)
        assert mount.output(f"stat -c %s {FILE}").split() == [str(len(wanted))], way
        assert (mount.path / FILE).read_bytes() == wanted, way
        assert records_of(bucket) == {1: FIRST, 20: wanted}, way
        (mount.path / FILE).unlink()
        mount.wait_until_all_is_closed()


WRITER = """
import os, sys, threading
data, to, way = open(sys.argv[1], "rb").read(), sys.argv[2], sys.argv[3]
def opened():
    return os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
def in_thread(work):
    thread = threading.Thread(target=work); thread.start(); thread.join()
if way == "odd chunks":
    with open(to, "wb", buffering=0) as out:
        at = step = 1
        while data:
            out.write(data[:step]); data = data[step:]; step = step * 7 % 5003 + 1
elif way == "other threads":
    made = []
    in_thread(lambda: made.append(opened()))
    in_thread(lambda: os.write(made[0], data))
    in_thread(lambda: os.close(made[0]))
elif way == "a copy closed":
    out = opened()
    os.write(out, data[:102400])
    os.close(os.dup(out))
    os.write(out, data[102400:])
    os.close(out)
elif way == "a child closes":
    out = opened()
    os.write(out, data[:102400])
    if os.fork() == 0:
        os.close(out)
        os._exit(1)
    os.wait()
    os.write(out, data[102400:])
    os.close(out)
elif way == "sync":
    out = opened()
    for at in range(0, len(data), 102400):
        os.write(out, data[at:at + 102400]); os.fsync(out); os.fdatasync(out)
    os.ftruncate(out, len(data))
    os.close(out)
elif way == "no close":
    os.write(opened(), data)
    os._exit(0)
assert way == "no close" or os.path.getsize(to) == len(open(to, "rb").read()) > 0
"""


def test_a_file_becomes_a_ledger_by_all_that_programs_do(mount: Mount, bucket: Place, folder: Path) -> None:
    for way in ("odd chunks", "other threads", "a copy closed", "a child closes", "sync", "no close"):
        command = [sys.executable, "-S", "-c", WRITER, folder / "small", mount.path / FILE, way]
        assert subprocess.run(command, check=False, timeout=PATIENCE).returncode == 0, way
        wait_until(lambda: 20 in records_of(bucket), PATIENCE)
        assert records_of(bucket) == {1: FIRST, 20: RECORDS}, way
        (mount.path / FILE).unlink()
        mount.wait_until_all_is_closed()


def test_a_directory_is_copied_and_removed(mount: Mount, bucket: Place, tmp_path: Path) -> None:
    source = tmp_path / "tenant" / "spaces" / "topic"
    source.mkdir(parents=True)
    made = {number: records([b"%d" % number]) for number in range(30, 36)}
    for number, data in made.items():
        (source / f"{number}.entries").write_bytes(data)
    mount.run(f"cp -r {tmp_path}/tenant entries/")
    assert records_of(bucket) == {1: FIRST, **made}
    mount.run(f"diff -r {tmp_path}/tenant entries/tenant")
    assert {ref.topic for ref in (bucket.clean.catalog.find(30),)} == {"persistent://tenant/spaces/topic"}
    mount.run("rm -r entries/tenant/spaces/topic")
    assert records_of(bucket) == {1: FIRST}
    # What is removed was the directory's last file: it stays until it is removed itself.
    assert mount.output("ls entries/tenant/spaces; rmdir -p entries/tenant/spaces || true; ls entries") == "public\n"


def test_directories_are_made_and_removed(mount: Mount, bucket: Place) -> None:
    mount.run("mkdir -p entries/a/b/c entries/a/b%2Fc")
    assert mount.output("cd entries; find a | sort; stat -c %F a/b").split("\n")[:-1] == [
        "a",
        "a/b",
        "a/b%2Fc",
        "a/b/c",
        "directory",
    ]
    mount.ask("refresh")
    assert number_of(mount.run("rmdir entries/a", None)) == errno.ENOTEMPTY
    assert number_of(mount.run("mkdir entries/a/b", None)) == errno.EEXIST
    assert number_of(mount.run("rmdir entries/public", None)) == errno.ENOTEMPTY
    assert number_of(mount.run("mkdir entries/a/b/c/d", None)) == errno.EPERM
    assert number_of(mount.run("mkdir jsonl/a", None)) == errno.EROFS
    assert number_of(mount.run("mkdir new", None)) == errno.EROFS
    mount.run("rmdir entries/a/b/c entries/a/b entries/a/b%2Fc entries/a")
    assert mount.output("ls entries").split() == ["public"]


def test_a_ledger_is_removed_while_it_is_read(mount: Mount, bucket: Place, folder: Path) -> None:
    mount.run(f"cp ../small {FILE}")
    with (mount.path / FILE).open("rb") as file:
        assert file.read(10) == RECORDS[:10]
        (mount.path / FILE).unlink()
        assert not (mount.path / FILE).exists()
        assert file.read(10) == RECORDS[10:20]
        mount.run(f"cp ../first {FILE}")
        assert (mount.path / FILE).read_bytes() == RECORDS[: 1024 * 100]


REFUSED = {
    f"cp ../small {TOPIC}/1.entries": errno.EPERM,
    f"dd if=../small of={TOPIC}/1.entries conv=excl status=none": errno.EEXIST,
    f"cat ../small >> {TOPIC}/1.entries": errno.EPERM,
    f"exec 7<> {TOPIC}/1.entries": errno.EPERM,
    f"exec 7<> {FILE}": errno.ENOTSUP,
    f"truncate -s 5 {TOPIC}/1.entries": errno.EPERM,
    f"mv {TOPIC}/1.entries {FILE}": errno.EPERM,
    f"ln {TOPIC}/1.entries {FILE}": errno.EPERM,
    f"ln -s 1.entries {FILE}": errno.EPERM,
    f"mkfifo {FILE}": errno.EPERM,
    f"chmod 600 {TOPIC}/1.entries": errno.EPERM,
    f"chown 5 {TOPIC}/1.entries": errno.EPERM,
    f"touch {TOPIC}/1.entries": errno.EPERM,
    f"cp ../small {TOPIC}/20": errno.EINVAL,
    f"cp ../small {TOPIC}/.20.entries.aB3xYz": errno.EINVAL,
    f"cp ../small {TOPIC}/020.entries": errno.EINVAL,
    "cp ../small entries/public/default/20.entries": errno.EINVAL,
    "cp ../small entries/public/default/nowhere/20.entries": errno.ENOENT,
    "cp ../small jsonl/public/default/orders/20.jsonl": errno.EROFS,
    "rm info/public/default/orders/1.json": errno.EROFS,
    f"rm {FILE}": errno.ENOENT,
    "mkdir -p entries/public/default/a; cp ../small entries/public/default/a/1.entries": errno.EEXIST,
    f"touch {FILE}": errno.EINVAL,
    f"cp /dev/null {FILE}": errno.EINVAL,
    f"head -c 5000 ../small > {FILE}": errno.EINVAL,
    f"tail -c +1025 ../small > {FILE}": errno.EINVAL,
    f"dd if=../small of={FILE} bs=1024 seek=3 status=none": errno.ENOTSUP,
}


def test_what_no_file_of_a_bucket_is_for_is_refused(mount: Mount, bucket: Place) -> None:
    for command, number in REFUSED.items():
        done = mount.run(command, None)
        assert number_of(done) == number, command
        assert records_of(bucket) == {1: FIRST}, command
    mount.run("rmdir entries/public/default/a 2> /dev/null || true")


def test_a_file_that_is_being_written_is_not_there_yet(mount: Mount, bucket: Place) -> None:
    path = mount.path / FILE
    file = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        os.write(file, RECORDS[:102400])
        assert path.stat().st_size == 102400
        assert [one.name for one in path.parent.iterdir()] == ["1.entries"]
        for flags, number in (
            (os.O_RDONLY, errno.EBUSY),
            (os.O_WRONLY | os.O_TRUNC, errno.EPERM),
            (os.O_WRONLY | os.O_CREAT | os.O_EXCL, errno.EEXIST),
        ):
            with pytest.raises(OSError) as refused:
                os.open(path, flags)
            assert refused.value.errno == number
        assert number_of(mount.run(f"rmdir {TOPIC}", None)) == errno.ENOTEMPTY
        assert len(bucket.clean.refresh().ledgers) == 1
    finally:
        os.write(file, RECORDS[102400:])
        os.close(file)
    assert records_of(bucket)[20] == path.read_bytes() == RECORDS


def test_a_file_that_is_removed_while_it_is_written_is_given_up(mount: Mount, bucket: Place) -> None:
    path = mount.path / FILE
    file = os.open(path, os.O_WRONLY | os.O_CREAT)
    os.write(file, RECORDS[:102400])
    path.unlink()
    assert not path.exists()
    with pytest.raises(OSError):
        os.write(file, RECORDS[102400:])
    with pytest.raises(OSError):
        os.close(file)


def begun(command: list[str], mount: Mount, size: int = 102400) -> "subprocess.Popen[bytes]":
    """Start a program that writes so many bytes, and then goes on."""
    process = subprocess.Popen(command, cwd=mount.path, stdin=subprocess.PIPE, start_new_session=True)
    assert process.stdin is not None
    process.stdin.write(RECORDS[:size])
    process.stdin.flush()
    wait_until(lambda: (mount.path / FILE).exists() and (mount.path / FILE).stat().st_size == size, PATIENCE)
    return process


def let_go(process: "subprocess.Popen[bytes]") -> None:
    assert process.stdin is not None
    process.stdin.close()
    process.wait(PATIENCE)


THREADS = """
import os, sys, threading, time
out = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
for _ in range(5):
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
threading.Thread(target=lambda: [os.write(out, os.read(0, 102400)) for _ in range(99)], daemon=True).start()
time.sleep(600)
"""


@pytest.mark.parametrize("program", ["cp", "cat", "threads"])
def test_of_a_writer_that_is_killed_nothing_appears(mount: Mount, bucket: Place, program: str) -> None:
    """What it wrote ends where a record does; the kernel closes its files like any others."""
    commands = {
        "cp": ["cp", "/dev/stdin", FILE],
        "cat": ["sh", "-c", f"exec cat > {FILE}"],
        "threads": [sys.executable, "-S", "-c", "import signal; signal.signal(2, signal.SIG_DFL)\n" + THREADS, FILE],
    }
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGSEGV):
        process = begun(commands[program], mount)
        process.send_signal(number)
        process.wait(PATIENCE)
        let_go(process)
        assert process.returncode == -number
        wait_until(lambda: not (mount.path / FILE).exists(), PATIENCE)
        assert records_of(bucket) == {1: FIRST}, number
        wait_until(lambda: any("the writing process was killed" in line for line in mount.log), PATIENCE)


def test_of_a_child_that_is_killed_and_a_shell_that_goes_on_nothing_appears(mount: Mount, bucket: Place) -> None:
    process = begun(
        ["bash", "-c", f"exec 3<&0; (cat <&3 & echo $! > ../child; wait $!; cat ../rest; true) > {FILE}"], mount
    )
    child = mount.path.parent / "child"
    wait_until(lambda: child.exists() and child.read_text().endswith("\n"), PATIENCE)
    os.kill(int(child.read_text()), signal.SIGKILL)
    process.wait(PATIENCE)
    let_go(process)
    wait_until(lambda: not (mount.path / FILE).exists(), PATIENCE)
    assert records_of(bucket) == {1: FIRST}


def test_of_a_shell_that_fails_nothing_appears(mount: Mount, bucket: Place) -> None:
    for command in (
        f"(cat ../first; exit 1) > {FILE}",
        f"(set -e; cat ../first; cat ../missing; cat ../rest) > {FILE}",
    ):
        mount.run(command, 1)
        wait_until(lambda: not (mount.path / FILE).exists(), PATIENCE)
        assert records_of(bucket) == {1: FIRST}, command


def test_a_program_that_starts_others_all_the_time_writes(mount: Mount, bucket: Place) -> None:
    """For a moment each child has all that its parent has open."""
    stop = threading.Event()

    def start_others() -> None:
        while not stop.is_set():
            subprocess.run(["true"], check=True, close_fds=False)

    others = [threading.Thread(target=start_others) for _ in range(3)]
    for other in others:
        other.start()
    path = mount.path / FILE
    # However long a child takes from its beginning to the program that it becomes.
    looks = {"ledgerfs.fuse_mount.processes._LOOKS_AGAIN": [*processes._LOOKS_AGAIN, *[1] * int(PATIENCE)]}
    try:
        with mount.with_constants(looks):
            for _ in range(30):
                path.write_bytes(RECORDS)
                assert path.read_bytes() == RECORDS
                path.unlink()
    finally:
        stop.set()
        for other in others:
            other.join()


def test_many_are_written_at_once(mount: Mount, bucket: Place) -> None:
    mount.run("for i in $(seq 40 59); do cp ../small " + TOPIC + "/$i.entries & done; wait $(jobs -p)")
    assert records_of(bucket) == {1: FIRST, **dict.fromkeys(range(40, 60), RECORDS)}


@pytest.fixture
def store(
    s3: S3Server, s3_bucket: str, proxy: FaultProxy, folder: Path, tmp_path: Path
) -> Iterator[tuple[Mount, Place]]:
    place = s3_place(s3, s3_bucket)
    for key, data in offload([b"one", b"two"], 1).objects.items():
        s3.client.put_object(Bucket=s3_bucket, Key=key, Body=data)
    (tmp_path / "large").symlink_to(folder / "large")
    (tmp_path / "small").symlink_to(folder / "small")
    options = {**proxy.options, **PATIENT}
    # The kernel asks again for what failed, and a busy machine lets it do so late.
    constants = {"ledgerfs.fuse_mount.error_numbers._SILENT_SECONDS": 3600}
    with mounted(
        tmp_path, place.url, options, is_faulty=True, constants=constants, is_writable=True, block_size=BLOCK
    ) as made:
        yield made, place


def test_a_store_that_fails_is_reported_when_the_file_is_closed(store: tuple[Mount, Place], proxy: FaultProxy) -> None:
    mount, place = store
    for kind, number in (("500", errno.EIO), ("403", errno.EACCES)):
        for file in ("small", "large"):
            proxy.faults = [Fault(kind, matches=lambda method, path, headers: method in {"PUT", "POST"})]
            done = mount.run(f"cp ../{file} {FILE}", 1)
            assert number_of(done) == number
            proxy.faults = []
            wait_until(lambda: not (mount.path / FILE).exists(), PATIENCE)
            assert records_of(place) == {1: FIRST}
    # Nothing is left of it when the store is well again.
    mount.run(f"cp ../large {FILE}; cmp ../large {FILE}")
    assert set(records_of(place)) == {1, 20}
    errors = [line for line in mount.log if line.startswith("ERROR")]
    assert 4 <= len(errors) <= 8, errors
    assert all("ledger-20" in line for line in errors), errors


def test_the_store_is_sent_parts_while_the_file_is_written(store: tuple[Mount, Place], proxy: FaultProxy) -> None:
    mount, place = store
    file = os.open(mount.path / FILE, os.O_WRONLY | os.O_CREAT)
    data = records(big_entries(4))
    os.write(file, data[: 3 * BLOCK])
    wait_until(lambda: any(seen.method == "PUT" for seen in proxy.seen), PATIENCE)
    assert len(place.clean.refresh().ledgers) == 1
    os.write(file, data[3 * BLOCK :])
    os.close(file)
    assert records_of(place)[20] == data


def test_the_mount_answers_while_a_file_is_completed(store: tuple[Mount, Place], proxy: FaultProxy) -> None:
    mount, place = store
    sent, answered = threading.Event(), threading.Event()

    def hold() -> None:
        sent.set()
        answered.wait(2 * PATIENCE)

    proxy.faults = [Fault("", matches=lambda method, path, headers: method == "PUT", action=hold)]
    copying = threading.Thread(target=mount.run, args=(f"cp ../small {FILE}",))
    copying.start()
    try:
        assert sent.wait(PATIENCE)
        assert (mount.path / TOPIC / "1.entries").read_bytes() == FIRST
        assert mount.output(f"ls {TOPIC}").split() == ["1.entries"]
        assert len(place.clean.refresh().ledgers) == 1, "who reads has waited for who writes"
    finally:
        answered.set()
        copying.join()
    assert (mount.path / FILE).read_bytes() == RECORDS
