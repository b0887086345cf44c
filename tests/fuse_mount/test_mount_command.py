"""``ledgerfs mount``, ``umount`` and ``mount.ledgerfs`` as users run them: real mounts, real processes, real signals."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import pytest

from ledgerfs.cli import mount as mount_module
from ledgerfs.cli.mount_helper import command_of
from ledgerfs.cli.parameter_types import Duration
from ledgerfs.errors import LedgerfsError, MountpointError
from ledgerfs.fuse_mount import launching, mountpoint
from ledgerfs.fuse_mount.mountpoint import mounted_at
from ledgerfs.fuse_mount.option_names import sort_options, split_options
from ledgerfs.fuse_mount.serving import load_environment
from ledgerfs.fuse_mount.unmounting import detach
from tests.support import commands
from tests.support.children import is_stopped, started
from tests.support.commands import LEDGERFS
from tests.support.each import for_each
from tests.support.forked import Piped, can_be_forked
from tests.support.invoked import Done, run
from tests.support.ledgers import offload, put_in_folder
from tests.support.s3 import CREDENTIALS, Fault, FaultProxy, S3Server
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not os.access("/dev/fuse", os.R_OK | os.W_OK), reason="no /dev/fuse"),
]

PATIENCE = 300.0
TOPIC = "entries/public/default/orders"
HELPER = [sys.executable, "-c", "from ledgerfs.cli.mount_helper import main; main()"]


def has_ended(process: int) -> bool:
    """Whether a process is gone, or waits for nothing but to be buried by whoever adopted it."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def s3_options(s3: S3Server | FaultProxy) -> list[str]:
    return [part for name, value in s3.options.items() for part in ("-o", f"{name}={value}")]


def offload_size() -> int:
    return len(offload([b"entry %d" % i for i in range(1000)], 1).records)


class Place:
    """A folder to mount on, and the process behind it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "mountpoint"
        self.path.mkdir()
        self._pid_file = folder / "pid"
        self.log = folder / "mount.log"
        self.processes: list[int] = []

    def mount(
        self,
        url: str,
        *options: str,
        code: int = 0,
        env: dict[str, str] | None = None,
        run: "Callable[..., Done | subprocess.CompletedProcess[bytes]]" = run,
    ) -> str:
        """Mount, and return what is said on standard error."""
        files = ["--pid-file", str(self._pid_file), "--log-file", str(self.log)]
        done = run("mount", url, str(self.path), *files, *options, code=code, env=env)
        if code == 0:
            self.processes.append(int(self._pid_file.read_text()))
        return done.stderr.decode()

    @property
    def process(self) -> int:
        return self.processes[-1]

    @property
    def is_mounted(self) -> bool:
        return mounted_at(str(self.path)) is not None

    def kill(self, number: int) -> None:
        os.kill(self.process, number)

    def expect_end(self) -> None:
        wait_until(lambda: has_ended(self.process))
        assert not self.is_mounted
        assert not list(self.path.iterdir())

    def clean(self) -> None:
        for process in self.processes:
            if not has_ended(process):
                os.kill(process, signal.SIGKILL)
        while self.is_mounted:
            detach(str(self.path), lazy=True)


@pytest.fixture(autouse=True)
def _mounts_may_answer_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have `umount` and `mount` take a daemon for one that hangs only after minutes."""
    monkeypatch.setattr(mountpoint, "_ANSWER_SECONDS", PATIENCE)


@pytest.fixture(autouse=True)
def _daemons_are_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare the daemons of commands that run in this process their imports. Others are started as a user's are."""

    def start(command: list[str], stderr: IO[bytes], **options: Any) -> Piped | subprocess.Popen[bytes]:
        if not can_be_forked({**os.environ}):
            return subprocess.Popen(command, stderr=stderr, **options)
        entry = "tests.support.mount_server:serve_as_command"
        return Piped("mount", tuple(command[4:]), {**os.environ}, stderr.fileno(), entry)

    can_be_forked({})  # The process that forks begins here, before a test changes its environment.
    monkeypatch.setattr(launching, "subprocess", SimpleNamespace(**{**vars(subprocess), "Popen": start}))


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.clean()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A bucket with one ledger."""
    made = tmp_path / "bucket"
    made.mkdir()
    put_in_folder(made, offload([b"entry %d" % i for i in range(1000)], 1, uuid=1))
    return made


def test_the_bucket_is_there_when_the_command_returns(golden_url: str, golden: Path, place: Place) -> None:
    assert place.mount(golden_url, run=commands.run) == ""
    entry = mounted_at(str(place.path))
    assert entry is not None
    assert (entry.filesystem, entry.source) == ("fuse.ledgerfs", golden_url)
    listed = subprocess.run(["ls", place.path / "entries/public/golden/plain"], capture_output=True, check=True).stdout
    assert listed.split() == [b"123.entries", b"26.entries", b"84.entries"]
    read = subprocess.run(
        ["cat", place.path / "entries/public/golden/plain/26.entries"], capture_output=True, check=True
    )
    assert read.stdout == run("cat", golden_url, "entries/public/golden/plain/26.entries").stdout
    commands.run("umount", str(place.path))
    place.expect_end()
    assert "is mounted on" in place.log.read_text()
    assert "no longer mounted" in place.log.read_text()


def test_the_daemon_keeps_nothing_of_its_starter(folder: Path, place: Place) -> None:
    place.mount(str(folder), run=commands.run)
    root = Path(f"/proc/{place.process}")
    assert (root / "cwd").readlink() == Path("/")
    assert [(root / "fd" / str(number)).readlink() for number in (0, 1)] == [Path(os.devnull)] * 2
    assert (root / "fd/2").readlink() == place.log
    session = int((root / "stat").read_text().rpartition(")")[2].split()[3])
    assert session == place.process


def test_paths_may_be_relative(folder: Path, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place.path.parent)
    monkeypatch.setenv("LEDGERFS_CACHE_DIR", "kept")
    (place.path.parent / "ledgerfs").mkdir()  # nobody's package
    run("mount", folder.name, place.path.name, "--pid-file", "other.pid")
    place.processes.append(int(Path("other.pid").read_text()))
    assert (place.path / TOPIC / "1.entries").stat().st_size > 0
    assert (place.path / "jsonl/public/default/orders/1.jsonl").parent.is_dir()
    run("umount", place.path.name)
    place.expect_end()
    logs = list(Path("kept/mounts").iterdir())
    assert len(logs) == 1
    assert "no longer mounted" in logs[0].read_text()
    assert not Path("other.pid").exists()


@pytest.mark.long
@for_each(
    "name",
    [
        "ünï",
        "tier\\",
        "a\\,b",
        'a\\b,c 50%"',
        "\\134\\",
        "with space ",
        "new\nline,\ttab",
        "\x1b[31m",
        os.fsdecode(b"\xff"),
    ],
)
def test_buckets_of_all_names_can_be_mounted(folder: Path, place: Place, name: str) -> None:
    """On folders of the same names."""
    bucket = folder.with_name(name)
    bucket.symlink_to(folder)
    place.path = place.path.parent / "at" / name
    place.path.mkdir(parents=True)
    place.mount(str(bucket))
    entry = mounted_at(str(place.path))
    assert entry is not None
    assert entry.is_ours
    assert entry.source.isprintable()
    if name.isprintable():
        assert entry.source == str(bucket)
    assert (place.path / TOPIC / "1.entries").stat().st_size == offload_size()
    run("umount", str(place.path))
    place.expect_end()


def test_an_empty_bucket_is_mounted_with_a_word(tmp_path: Path, place: Place) -> None:
    (tmp_path / "empty").mkdir()
    assert "no offloaded ledgers" in place.mount(str(tmp_path / "empty"))
    assert place.is_mounted


def test_a_bucket_that_is_refused_is_no_empty_one(folder: Path, place: Place, tmp_path: Path) -> None:
    (index,) = folder.glob("*-index")
    index.symlink_to(index.rename(tmp_path / "elsewhere"))
    assert index.name in place.mount(str(folder), code=3)
    said = place.mount(str(folder), "--on-unreadable", "skip")
    assert f"mounted; file://{folder}: left out objects that the store refuses: {index.name}: " in said
    assert place.is_mounted
    assert "left out objects that the store refuses" in place.log.read_text()


@for_each(
    ("url", "target", "options", "code", "said"),
    [
        ("{bucket}-not", "{place}", [], 3, "no such bucket or folder"),
        ("nofs://x", "{place}", [], 2, "nofs"),
        ("{bucket}", "{place}-not", [], 2, "the folder does not exist"),
        ("{bucket}", "{bucket}", [], 2, "not empty"),
        ("{bucket}", "/proc/version", [], 2, "not a folder"),
        ("{bucket}", "/proc", [], 2, "already mounted here"),
        ("{bucket}", "{place}", ["-o", "nonsense"], 2, "not KEY=VALUE"),
        ("{bucket}", "{place}", ["--refresh", "soon"], 2, "not a time"),
        ("{bucket}", "{place}", ["--write", "-o", "ro"], 2, "contradict"),
        ("{bucket}", "{place}", ["-o", "refresh=5m"], 2, "--refresh"),
        ("{bucket}", "{place}", ["--env-file", "/not/there"], 2, "cannot read the environment variables"),
        # A value that ends in a backslash takes nothing of what is behind it along; libfuse says what it thinks of it.
        ("{bucket}", "{place}", ["-o", "umask=\\"], 2, "umask"),
        ("{bucket}", "{place}", ["-o", "attr_timeout=x"], 2, "libfuse could not mount the bucket: "),
        ("{bucket}", "{place}", ["--log-file", "/not/there"], 2, "/not/there: cannot write"),
        ("{bucket}", "{place}", ["--pid-file", "/not/there"], 2, "/not/there: cannot write"),
        ("{bucket}-not", "{place}", ["--foreground"], 3, "no such bucket"),
        ("", "{place}", [], 2, "empty"),
    ],
)
def test_what_cannot_be_mounted_is_reported_at_once(
    folder: Path, place: Place, url: str, target: str, options: list[str], code: int, said: str
) -> None:
    names = {"bucket": str(folder), "place": str(place.path)}
    done = run("mount", url.format(**names), target.format(**names), *options, code=code)
    assert said in done.stderr.decode()
    assert done.stderr.count(b"\n") == 1 or "Usage" in done.stderr.decode()
    assert not place.is_mounted


def test_mounting_twice_is_refused(folder: Path, place: Place) -> None:
    place.mount(str(folder))
    assert "already mounted here; unmount it with `ledgerfs umount`" in place.mount(str(folder), code=2)
    assert place.is_mounted


def test_a_store_that_refuses_or_is_not_there_is_reported(s3_golden: str, s3: S3Server, place: Place) -> None:
    assert "no such bucket" in place.mount("s3://not-there", *s3_options(s3), code=3)
    endpoint = ["-o", f"endpoint_url={s3.endpoint}"]
    message = place.mount(s3_golden, *endpoint, code=3)
    assert "credentials" in message.lower()
    assert message.count("\n") == 1
    assert not place.is_mounted


@pytest.mark.parametrize(
    ("module", "said"),
    [("raise ImportError('no')", "pip install '.[fuse]' in a clone"), ("raise OSError('no')", "apt-get install fuse3")],
)
def test_missing_libraries_are_reported(folder: Path, place: Place, tmp_path: Path, module: str, said: str) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site/mfusepy.py").write_text(module)
    assert said in place.mount(str(folder), code=2, env={"PYTHONPATH": str(tmp_path / "site")})


def test_umount_refuses_what_is_not_ours(place: Place) -> None:
    assert b"nothing is mounted here" in run("umount", str(place.path), code=2).stderr
    assert b"not a mount of ledgerfs" in run("umount", "/proc", code=2).stderr


def test_umount_of_a_folder_in_use(folder: Path, place: Place) -> None:
    place.mount(str(folder))
    with (place.path / TOPIC / "1.entries").open("rb") as file:
        assert b"in use" in run("umount", str(place.path), code=2).stderr
        run("umount", "--lazy", str(place.path))
        assert not place.is_mounted
        assert len(file.read()) == offload_size()
    place.expect_end()


def test_a_killed_daemon_leaves_what_mount_and_umount_clear(folder: Path, place: Place) -> None:
    for said in ("", "removed a mount whose process was killed"):
        assert said in place.mount(str(folder))
        assert (place.path / TOPIC / "1.entries").exists()
        place.kill(signal.SIGKILL)
        wait_until(lambda: has_ended(place.process))
        assert place.is_mounted
        with pytest.raises(OSError, match="connect"):
            list(place.path.iterdir())
    run("umount", str(place.path))
    place.expect_end()


@for_each("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_end_the_mount(folder: Path, place: Place, number: int) -> None:
    place.mount(str(folder))
    (place.path / TOPIC / "1.entries").read_bytes()
    place.kill(number)
    place.expect_end()


def test_a_file_that_is_open_can_be_read_to_its_end(folder: Path, place: Place) -> None:
    place.mount(str(folder))
    with (place.path / TOPIC / "1.entries").open("rb", buffering=0) as file:
        place.kill(signal.SIGTERM)
        wait_until(lambda: not place.is_mounted)
        assert len(file.read()) == offload_size()
        assert not has_ended(place.process)
    place.expect_end()


def test_a_second_signal_cuts_off(folder: Path, place: Place) -> None:
    place.mount(str(folder))
    file = os.open(place.path / TOPIC / "1.entries", os.O_RDONLY)
    place.kill(signal.SIGTERM)
    wait_until(lambda: not place.is_mounted)
    place.kill(signal.SIGTERM)
    place.expect_end()
    with pytest.raises(OSError, match="connect"):
        os.pread(file, 10, 0)
    with suppress(OSError):
        os.close(file)
    assert "although 1 files are still open" in place.log.read_text()


def test_a_store_that_hangs_does_not_keep_the_mount(s3_golden: str, proxy: FaultProxy, place: Place) -> None:
    place.mount(s3_golden, *s3_options(proxy))
    proxy.faults.append(Fault("hang", matches=lambda *_: True))
    file = place.path / "entries/public/golden/plain/26.entries"
    with started(["cat", file], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as reader:
        wait_until(lambda: proxy.faults[0].met > 0)
        place.kill(signal.SIGTERM)
        wait_until(lambda: not place.is_mounted)
        place.kill(signal.SIGTERM)
        place.expect_end()
        assert reader.wait(PATIENCE) == 1


def test_a_daemon_that_hangs_can_be_unmounted(folder: Path, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.mount(str(folder))
    place.kill(signal.SIGSTOP)
    wait_until(lambda: is_stopped(place.process))
    monkeypatch.setattr(mountpoint, "_ANSWER_SECONDS", 0.1)
    assert b"does not answer; pass --lazy" in run("umount", str(place.path), code=2).stderr
    run("umount", "-z", str(place.path))
    assert not place.is_mounted
    place.kill(signal.SIGCONT)
    place.expect_end()


def test_open_files_are_not_waited_for_forever(folder: Path, place: Place) -> None:
    place.mount(str(folder))
    file = os.open(place.path / TOPIC / "1.entries", os.O_RDONLY)
    place.kill(signal.SIGTERM)
    place.expect_end()
    with suppress(OSError):
        os.close(file)


def test_uploads_that_are_not_complete_leave_nothing(folder: Path, place: Place) -> None:
    place.mount(str(folder), "--write")
    before = sorted(folder.iterdir())
    records = offload([b"x" * 1000] * 100, 7).records
    file = (place.path / TOPIC / "7.entries").open("wb", buffering=0)
    file.write(records[: len(records) // 2])
    place.kill(signal.SIGTERM)
    wait_until(lambda: not place.is_mounted)
    place.kill(signal.SIGTERM)
    place.expect_end()
    with pytest.raises(OSError, match="connect"):
        file.close()
    assert sorted(folder.iterdir()) == before


def test_copying_in_takes_write(folder: Path, place: Place, tmp_path: Path) -> None:
    records = offload([b"x" * 1000] * 100, 7).records
    (tmp_path / "7.entries").write_bytes(records)
    place.mount(str(folder))
    copy = ["cp", str(tmp_path / "7.entries"), str(place.path / TOPIC / "7.entries")]
    refused = subprocess.run(copy, capture_output=True, check=False)
    assert refused.returncode == 1
    assert b"Read-only file system" in refused.stderr
    run("umount", str(place.path))
    place.expect_end()
    place.mount(str(folder), "--write", "--block-size", "5MiB")
    subprocess.run(copy, check=True)
    run("umount", str(place.path))
    assert run("cat", str(folder), f"{TOPIC}/7.entries").stdout == records


def test_no_signal_is_missed(folder: Path, place: Place) -> None:
    place.mount(str(folder), "--refresh", "1h")
    put_in_folder(folder, offload([b"new"], 2, uuid=2))
    assert [path.name for path in (place.path / TOPIC).iterdir()] == ["1.entries"]
    for times in range(1, 51):
        place.kill(signal.SIGUSR1)
        wait_until(lambda: place.log.read_text().count("listed again") == times)  # noqa: B023
    assert (place.path / TOPIC / "2.entries").exists()


def test_foreground(folder: Path, place: Place, tmp_path: Path) -> None:
    notices = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notices.bind(str(tmp_path / "notify"))
    notices.settimeout(PATIENCE)
    command = [LEDGERFS, "mount", str(folder), str(place.path), "--foreground"]
    with notices, subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env={**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify")}
    ) as process:  # fmt: skip
        place.processes.append(process.pid)
        assert notices.recv(100) == b"READY=1"
        assert (place.path / TOPIC / "1.entries").exists()
        process.send_signal(signal.SIGUSR1)
        process.send_signal(signal.SIGINT)
        assert notices.recv(100) == b"STOPPING=1"
        _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert "is mounted on" in said
    assert "stopping because of SIGINT" in said
    assert "Traceback" not in said
    place.expect_end()


def wait_for_daemon(command: int, place: Place, proxy: FaultProxy) -> None:
    """Wait until the daemon that a command has started asks for something."""
    children = Path(f"/proc/{command}/task/{command}/children")
    wait_until(lambda: bool(children.read_text().split()))
    place.processes += map(int, children.read_text().split())
    wait_until(lambda: proxy.faults[0].met > 0)


def test_interrupted_while_waiting(s3_golden: str, proxy: FaultProxy, place: Place) -> None:
    proxy.faults.append(Fault("hang", matches=lambda *_: True))
    options = s3_options(proxy)
    with started([LEDGERFS, "mount", s3_golden, str(place.path), *options], stderr=subprocess.PIPE) as process:
        wait_for_daemon(process.pid, place, proxy)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert b"Traceback" not in said
    place.expect_end()


def test_nothing_is_mounted_for_a_command_that_was_killed(s3: S3Server, golden: Path, proxy: FaultProxy, place: Place) -> None:  # fmt: skip
    s3.make_golden_bucket("killed", golden, ".*/plain")
    killed = threading.Event()
    proxy.faults.append(Fault("", matches=lambda *_: True, action=lambda: killed.wait(PATIENCE)))
    options = s3_options(proxy)
    options += ["--log-file", str(place.log)]
    with started([LEDGERFS, "mount", "s3://killed", str(place.path), *options]) as process:
        wait_for_daemon(process.pid, place, proxy)
        process.kill()
    killed.set()
    place.expect_end()
    assert "the mount command has exited" in place.log.read_text()


def test_credentials_are_seen_nowhere(s3_golden: str, s3: S3Server, place: Place) -> None:
    place.mount(s3_golden, *s3_options(s3), "--trace", "--stats", run=commands.run)
    assert (place.path / "entries/public/golden/plain/26.entries").read_bytes()
    place.kill(signal.SIGUSR1)
    wait_until(lambda: "listed again" in place.log.read_text())
    root = Path(f"/proc/{place.process}")
    shown = [(root / name).read_bytes() for name in ("cmdline", "environ", "mountinfo", "comm")]
    run("umount", str(place.path))
    place.expect_end()
    assert "stats: requests " in place.log.read_text()
    assert "GET" in place.log.read_text()
    for text in [*shown, place.log.read_bytes()]:
        assert CREDENTIALS["key"].encode() not in text
        assert CREDENTIALS["secret"].encode() not in text


def test_credentials_come_from_a_file(s3_golden: str, s3: S3Server, place: Place, tmp_path: Path) -> None:
    file = tmp_path / "tier.env"
    file.write_text(
        f"# for {s3_golden}\nAWS_ACCESS_KEY_ID={CREDENTIALS['key']}\nexport AWS_SECRET_ACCESS_KEY='{CREDENTIALS['secret']}'\n"
        f'AWS_ENDPOINT_URL="{s3.endpoint}"\n'
    )
    place.mount(s3_golden, "--env-file", str(file), run=commands.run)
    assert (place.path / "entries/public/golden/plain/26.entries").stat().st_size
    assert CREDENTIALS["secret"].encode() not in Path(f"/proc/{place.process}/environ").read_bytes()


def test_lines_of_fstab(folder: Path, place: Place) -> None:
    options = f"rw,_netdev,noauto,user,x-systemd.automount,nosuid,refresh=5m,uid=7,pid_file={place.path.parent}/pid"
    done = subprocess.run(
        [*HELPER, str(folder), str(place.path), "-v", "-o", options], capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    place.processes.append(int((place.path.parent / "pid").read_text()))
    assert (place.path / TOPIC / "1.entries").stat().st_uid == 7
    assert os.statvfs(place.path).f_flag & os.ST_RDONLY
    run("umount", str(place.path))
    place.expect_end()


@for_each(
    ("arguments", "said"),
    [
        (["one"], "usage: mount.ledgerfs"),
        (["a", "b", "-x"], "-x"),
        (["a", "b", "-o", "what"], "-o what"),
        (["a", "b", "-o", "remount,ro"], "cannot be changed"),
        (["{bucket}-not", "{place}"], "no such bucket"),
    ],
)
def test_the_fstab_helper_says_what_is_wrong(folder: Path, place: Place, arguments: list[str], said: str) -> None:
    names = {"bucket": str(folder), "place": str(place.path)}
    done = subprocess.run([*HELPER, *(text.format(**names) for text in arguments)], capture_output=True, check=False)
    assert done.returncode == (3 if "-not" in arguments[0] else 2)
    assert said in done.stderr.decode()
    assert b"Traceback" not in done.stderr
    assert not place.is_mounted


def test_options_of_fstab_become_those_of_the_command() -> None:
    text = 'defaults,nofail,user=bob,write,cache_dir=/c,endpoint_url=http://h:9,client_kwargs={"a": 1, "b": [2, 3]},key=K,allow_other'
    assert command_of("s3://t", "/m", split_options(text)) == [
        "mount", "--write", "--cache-dir=/c", "-o", "allow_other", "-o", "endpoint_url=http://h:9",
        "-o", 'client_kwargs={"a": 1, "b": [2, 3]}', "-o", "key=K", "--", "s3://t", "/m",
    ]  # fmt: skip
    assert command_of("s3://t", "/m", ["ro", "nonempty"])[1:5] == ["-o", "ro", "-o", "nonempty"]
    assert split_options('a="x,y",,b') == ['a="x,y"', "b"]


def test_options_are_sorted_by_name() -> None:
    options = sort_options(["allow_other", "gid=5", "refresh=5m", "profile=p", "ro", "x-gvfs-hide", "comment=a b"])
    assert options.fuse == {"allow_other": True, "gid": "5"}
    assert (options.mount, options.storage, options.is_read_only) == (["refresh=5m"], ["profile=p"], True)
    for text in ("what", "=1", "gid"):
        with pytest.raises(MountpointError):
            sort_options([text])


def test_other_users_take_a_line_in_fuse_conf(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(mount_module, "_FUSE_CONF", tmp_path / "fuse.conf")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for text in (None, "#user_allow_other\n"):
        if text is not None:
            (tmp_path / "fuse.conf").write_text(text)
        with pytest.raises(LedgerfsError, match="user_allow_other"):
            mount_module._fuse_options(sort_options([]), allow_other=True)
    (tmp_path / "fuse.conf").write_text("mount_max = 5\n user_allow_other\n")
    chosen = mount_module._fuse_options(sort_options([]), allow_other=True)
    assert chosen == {"allow_other": True, "default_permissions": True}


@for_each(("text", "seconds"), [("60s", 60), ("90", 90), ("1.5m", 90), ("2h", 7200), ("1d", 86400)])
def test_durations(text: str, seconds: float) -> None:
    assert Duration().convert(text, None, None) == seconds


def test_files_of_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "env"
    file.write_text("; no\n\nMC_A = 1\nMC_B='a b'\n")
    for name in ("MC_A", "MC_B"):
        monkeypatch.delenv(name, raising=False)
    load_environment(str(file))
    assert (os.environ.pop("MC_A"), os.environ.pop("MC_B")) == ("1", "a b")
    file.write_text("secret")
    with pytest.raises(LedgerfsError, match="line 1 is not") as caught:
        load_environment(str(file))
    assert "secret" not in str(caught.value)
