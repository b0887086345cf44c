"""Folders and files of a bucket that nobody lets us look into: what is in them may be ledgers, so nothing is taken for whole.

Root may read everything, so denials are made here: in a folder by the system call, on S3 by the answer.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from ledgerfs.bucket.opening import open_bucket
from ledgerfs.catalog.findings import Finding, Report
from ledgerfs.errors import AccessDeniedError, MissingLedgerError, UnreadableObjectsWarning
from ledgerfs.fsspec_impl.filesystem import LedgerFileSystem
from ledgerfs.verification import verify
from tests.support.invoked import output, run
from tests.support.ledgers import offload, put_in_folder
from tests.support.mapfile_buckets import MadeMapFile, mapfile, messages, put_mapfiles
from tests.support.s3 import Fault, FaultProxy, S3Server

TOPIC = "persistent://public/default/orders"
ELSEWHERE = "public/other/persistent/payments"
LEVELS = ["public", "public/default", "public/default/persistent", "public/default/persistent/orders"]
Deny = Callable[[str], None]


@pytest.fixture
def made() -> tuple[MadeMapFile, MadeMapFile, MadeMapFile]:
    return mapfile(messages(1, 5), 1), mapfile(messages(2, 5), 2), mapfile(messages(3, 5), 3, name=ELSEWHERE)


@pytest.fixture
def deny(monkeypatch: pytest.MonkeyPatch) -> Deny:
    """Return what denies all folders and files whose paths end so."""
    scan, opened, denied = os.scandir, os.open, [""]

    def require(path: Any) -> None:
        if denied[0] and f"/{path}".rstrip("/").endswith(f"/{denied[0]}"):
            raise PermissionError(13, "Permission denied", str(path))

    def scandir(path: Any) -> Any:
        require(path)
        return scan(path)

    def open_file(path: Any, flags: int, *rest: Any, dir_fd: int | None = None, **options: Any) -> int:
        # Files of a bucket are opened folder by folder.
        above = "" if dir_fd is None else str(Path(f"/proc/self/fd/{dir_fd}").readlink())
        if not flags & os.O_DIRECTORY:
            require(f"{above}/{path}")
        return opened(path, flags, *rest, dir_fd=dir_fd, **options)

    monkeypatch.setattr(os, "scandir", scandir)
    monkeypatch.setattr(os, "open", open_file)
    return lambda name: denied.__setitem__(0, name)


def found_in(report: Report, kind: str) -> Finding:
    return next(one for one in report.findings if one.kind == kind)


@pytest.mark.parametrize("base", ["", "pulsar"])
def test_a_folder_that_may_not_be_listed_is_never_passed_over(
    base: str, made: tuple[MadeMapFile, ...], deny: Deny, tmp_path: Path
) -> None:
    for level in LEVELS:
        deny("")
        folder = tmp_path / f"without-{level}".replace("/", "-")
        url = put_mapfiles(folder, *made, base=base)
        put_in_folder(folder, offload(messages(9, 3), 9))
        path = "/".join(part for part in (base, level) if part)
        deny(path)
        bucket = open_bucket(url)
        for _ in range(2):
            with pytest.raises(
                AccessDeniedError,
                match=f"^{path}/: cannot list a folder that may contain ledgers: .*--on-unreadable skip",
            ):
                bucket.topics()
        with pytest.raises(AccessDeniedError):
            open_bucket(url, catalog_max_age=600).topic(TOPIC)
        # Everything else is verified all the same, and the folder is named.
        report = verify(open_bucket(url))
        assert (report.is_damaged, report.is_complete) == (False, False), level
        assert found_in(report, "unlisted-folder").key == f"{path}/"
        assert report.ledgers == {"public": 1}.get(level, 2), level
        with pytest.warns(UnreadableObjectsWarning, match=f"{path}/"):
            assert open_bucket(url, on_unreadable="skip").topic(TOPIC).count() == 3, level
        # Whoever wants none of folders has what is beside them.
        assert open_bucket(url, layout="pulsar_blob").catalog.ledgers.size == 1, level
        deny("")
        assert bucket.topic(TOPIC).count() == 13, level
        assert verify(bucket).is_complete, level


def test_the_folder_of_one_ledger(made: tuple[MadeMapFile, ...], deny: Deny, tmp_path: Path) -> None:
    url = put_mapfiles(tmp_path, *made)
    deny(made[1].folder)
    bucket = open_bucket(url)
    for on_corrupt in ("raise", "skip"):
        with pytest.raises(AccessDeniedError, match=f"{made[1].folder}.*cannot read ledger 2 of {TOPIC}"):
            bucket.topic(TOPIC).count(on_corrupt=on_corrupt)
    scan = open_bucket(url, on_unreadable="skip").topic(TOPIC).scan()
    assert (scan.count(), [one.ledger_id for one in scan.missing]) == (5, [2])
    assert bucket.topic(ELSEWHERE).count() == 5
    report = verify(bucket)
    assert (report.is_damaged, report.is_complete) == (False, False)
    assert found_in(report, "unreadable-ledger").key == made[1].folder


@pytest.mark.parametrize("name", ["data", "index"])
def test_files_that_may_not_be_read(name: str, made: tuple[MadeMapFile, ...], deny: Deny, tmp_path: Path) -> None:
    url = put_mapfiles(tmp_path, *made)
    deny(f"{made[1].folder}/{name}")
    bucket = open_bucket(url)
    kind = "unreadable-ledger" if name == "data" else "unreadable-object"
    for quick in (True, False):
        report = verify(open_bucket(url), quick=quick)
        assert (report.is_damaged, report.is_complete) == (False, False)
        assert found_in(report, kind).key == f"{made[1].folder}/{name}"
    if name == "data":
        with pytest.raises(AccessDeniedError, match="ledger 2"):
            bucket.topic(TOPIC).count()
        assert open_bucket(url, on_unreadable="skip").topic(TOPIC).count() == 5
    else:
        assert bucket.topic(TOPIC).count() == 10
    # What was not read once is read again, though nothing about it has changed.
    deny("")
    assert open_bucket(url).topic(TOPIC).count() == 10
    assert not verify(open_bucket(url)).findings


def test_a_folder_whose_names_may_be_listed_and_nothing_else(
    made: tuple[MadeMapFile, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the right to search it (``chmod 644``), not even what is a folder in it can be asked."""
    url = put_mapfiles(tmp_path, *made)
    scan = os.scandir

    class Entry:
        def __init__(self, entry: Any) -> None:
            self.name, self.is_symlink, self.is_dir = entry.name, entry.is_symlink, entry.is_dir

        def stat(self, **_: Any) -> os.stat_result:
            raise PermissionError(13, "Permission denied", self.name)

    class Entries(list[Entry]):
        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            pass

    def scandir(path: Any) -> Any:
        place = f"{path}/"
        if "/public/default/" in place:
            raise PermissionError(13, "Permission denied", str(path))
        return Entries(map(Entry, scan(path))) if place.rstrip("/").endswith("/public") else scan(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(AccessDeniedError, match="public/default/"):
        open_bucket(url).topics()


def test_what_file_systems_keep_for_themselves(made: tuple[MadeMapFile, ...], deny: Deny, tmp_path: Path) -> None:
    url = put_mapfiles(tmp_path, *made)
    for name in ("lost+found", "public/lost+found"):
        (tmp_path / name).mkdir()
    deny("lost+found")
    with pytest.raises(AccessDeniedError, match=r"public/lost\+found/"):
        open_bucket(url).topics()
    (tmp_path / "public/lost+found").rmdir()
    assert open_bucket(url).topic(TOPIC).count() == 10
    assert [one.kind for one in verify(open_bucket(url)).findings] == ["foreign-keys"]


def test_filesystems_of_fsspec(made: tuple[MadeMapFile, ...], tmp_path: Path, deny: Deny) -> None:
    """Whose own walk leaves out what it may not list."""
    put_mapfiles(tmp_path, *made)
    url = f"simplecache::file://{tmp_path}"
    for level in LEVELS:
        deny("")
        assert open_bucket(url).topic(TOPIC).count() == 10
        deny(level)
        with pytest.raises(AccessDeniedError, match=f"{level}/"):
            open_bucket(url).topics()
        assert found_in(verify(open_bucket(url)), "unlisted-folder").key == f"{level}/"


def test_empty_folders_of_fsspec(made: tuple[MadeMapFile, ...], tmp_path: Path) -> None:
    put_mapfiles(tmp_path, made[0])
    (tmp_path / made[1].folder).mkdir()
    with pytest.raises(MissingLedgerError, match="ledger 2"):
        open_bucket(f"simplecache::file://{tmp_path}").topic(TOPIC).count()


def of_prefix(prefix: str) -> Fault:
    """Return the fault of a listing of what begins so."""
    return Fault(
        "403", matches=lambda _, path, __: unquote(parse_qs(urlsplit(path).query).get("prefix", ["-"])[0]) == prefix
    )


def test_a_folder_of_s3(
    made: tuple[MadeMapFile, ...], s3: S3Server, s3_bucket: str, proxy: FaultProxy, tmp_path: Path
) -> None:
    for one in made:
        for key, data in one.objects.items():
            s3.client.put_object(Bucket=s3_bucket, Key=key, Body=data)
    for key, data in offload(messages(9, 3), 9).objects.items():
        version = {"s3managedledgeroffloaderformatversion": "1"}
        s3.client.put_object(Bucket=s3_bucket, Key=key, Body=data, Metadata=version)
    url = f"s3://{s3_bucket}"
    options = [f"-o{name}={value}" for name, value in proxy.options.items()]
    proxy.faults = [of_prefix("public/")]
    assert b"cannot list public/" in run("topics", url, *options).stderr
    for command in ("ls", "count", f"count {TOPIC}", f"head {TOPIC}", "verify", "verify --quick", "repair"):
        name, *rest = command.split()
        done = run(name, url, *rest, *options, code=3)
        assert b"public/" in done.stdout + done.stderr, command
    for command in (
        ["offload", url, str(tmp_path)],
        ["export", url, TOPIC, str(tmp_path)],
        ["cat", url, "entries/public/default/orders/9.entries"],
    ):
        run(*command, *options, code=3)
    found = json.loads(output("verify", url, "--json", *options, code=3))
    assert [one["kind"] for one in found["findings"]] == ["unlisted-folder"]
    assert "ledgers checked: 1 " in output("verify", url, *options, code=3)
    run("count", url, TOPIC, "--layout", "pulsar_blob", *options)
    # One object of it.
    proxy.faults = [Fault("403", matches=lambda _, path, __: f"{made[1].folder}/data" in unquote(path))]
    done = run("count", url, "--json", *options, code=3)
    assert f"{made[1].folder}/data".encode() in done.stderr
    counts = {one["name"]: one["messages"] for one in json.loads(done.stdout)}
    assert counts == {TOPIC: None, "persistent://public/other/payments": 5}
    run("count", url, TOPIC, "--on-unreadable", "skip", *options, code=1)
    run("verify", url, *options, code=3)


def test_nothing_is_written_where_an_id_may_be_taken(made: tuple[MadeMapFile, ...], deny: Deny, tmp_path: Path) -> None:
    url = put_mapfiles(tmp_path, *made)
    deny("public/default/persistent")
    fs = LedgerFileSystem(url, target_protocol="file")
    with pytest.raises(AccessDeniedError):
        fs.pipe_file("entries/public/default/orders/7.entries", made[0].records)
    assert not list(tmp_path.glob("*-ledger-7*"))
