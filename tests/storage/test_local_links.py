"""Buckets in folders into which somebody else can write: no link leads a reader to other files of the machine, unless asked for."""

import os
import threading
from pathlib import Path

import pytest

from ledgerfs import open_bucket
from ledgerfs.bucket.bucket import Bucket
from ledgerfs.errors import (
    AccessDeniedError,
    InvalidOptionError,
    LedgerfsError,
    ObjectExistsError,
    StoreError,
    UnreadableObjectsWarning,
)
from ledgerfs.fsspec_impl import LedgerFileSystem
from ledgerfs.layouts.pulsar_blob.fragments import fragments_of
from ledgerfs.storage.folders.store import LocalStore
from ledgerfs.storage.objects import ReadRequest
from tests.support.invoked import output, run
from tests.support.ledgers import Offload, offload, put_in_folder

SECRET = b"root:x:0:0: the password of somebody, which is long enough to be read"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "bucket").mkdir()
    return tmp_path / "bucket"


@pytest.fixture
def made() -> Offload:
    return offload([b"one", b"two"], 1, uuid=1)


@pytest.fixture
def secret(tmp_path: Path, made: Offload) -> Path:
    """A file outside of the bucket that is as long as the index says of the data object."""
    path = tmp_path / "passwd"
    path.write_bytes(SECRET.ljust(len(made.data), b"."))
    return path


@pytest.fixture
def planted(folder: Path, made: Offload, secret: Path) -> Path:
    """A true index, and beside it a link in the place of the data."""
    put_in_folder(folder, made)
    data = folder / f"{made.uuid}-ledger-1"
    data.unlink()
    data.symlink_to(secret)
    return folder


def entries_of(bucket: Bucket) -> list[bytes]:
    return [bytes(entry.data) for entry in bucket.ledger(1).read(0, 1)]


def test_a_link_is_not_read_and_the_error_says_what_would_read_it(planted: Path, made: Offload) -> None:
    key = f"{made.uuid}-ledger-1"
    store = LocalStore(str(planted))
    for version in ("", next(stat.version for page in store.list_pages() for stat in page if stat.key == key)):
        with pytest.raises(AccessDeniedError, match="follow_links=true") as caught:
            store.read(ReadRequest(key, 0, 4, version))
        assert caught.value.key == key
    with pytest.raises(AccessDeniedError, match="a symbolic link"):
        store.start(ReadRequest(key, 0, 4)).result()
    with pytest.raises(AccessDeniedError, match="a symbolic link"):
        store.send(ReadRequest(key, 0, 4), -1)
    with pytest.raises(AccessDeniedError, match="a symbolic link"):
        store.head(key)
    assert [type(one) for one in store.read_many([ReadRequest(key, 0, 4)])] == [AccessDeniedError]


def test_no_view_shows_what_a_link_leads_to(planted: Path) -> None:
    fs = LedgerFileSystem(fo=f"file://{planted}", skip_instance_cache=True)
    files = fs.find("", detail=False)
    assert len(files) > 3
    for path in files:
        with pytest.raises(LedgerfsError, match="follow_links=true"):
            fs.cat_file(path)


def test_a_linked_index_is_named_and_hides_no_other_ledger(folder: Path, made: Offload, tmp_path: Path) -> None:
    other = offload([b"x"], 2, uuid=2)
    put_in_folder(folder, made, other)
    index = folder / f"{other.uuid}-ledger-2-index"
    index.rename(tmp_path / "index")
    index.symlink_to(tmp_path / "index")
    (bad,) = fragments_of(open_bucket(str(folder)).survey()).bad_indexes
    assert bad.key.ledger_id == 2
    assert "follow_links" in str(bad.error)
    with pytest.raises(AccessDeniedError, match="follow_links"):
        open_bucket(str(folder)).topics()
    with pytest.warns(UnreadableObjectsWarning, match=bad.key.index_key):
        assert [ref.ledger_id for ref in open_bucket(str(folder), on_unreadable="skip").catalog.refs()] == [1]
    assert [ref.ledger_id for ref in open_bucket(str(folder), {"follow_links": True}).catalog.refs()] == [1, 2]


@pytest.mark.parametrize("follow_links", [False, True])
@pytest.mark.parametrize("ending", ["", "-index"])
def test_a_link_that_leads_nowhere_was_not_deleted(
    ending: str, follow_links: bool, folder: Path, made: Offload, tmp_path: Path
) -> None:
    other = offload([b"x"], 2, uuid=2)
    put_in_folder(folder, made, other)
    key = f"{other.uuid}-ledger-2{ending}"
    (folder / key).unlink()
    (folder / key).symlink_to(tmp_path / "nowhere")
    error, said = (StoreError, "without a target") if follow_links else (AccessDeniedError, "follow_links=true")
    store = LocalStore(str(folder), follow_links=follow_links)
    for ask in (lambda: store.read(ReadRequest(key, 0, 4)), lambda: store.head(key)):
        with pytest.raises(error, match=said):
            ask()
    option = f"follow_links={follow_links}".lower()
    for command in (("verify",), ("verify", "--quick"), ("repair",)):
        reported = run(*command, "-o", option, str(folder), code=3)
        assert key.encode() in reported.stdout + reported.stderr
        assert said.encode() in reported.stdout + reported.stderr
    bucket = open_bucket(str(folder), {"follow_links": follow_links})
    if ending:
        assert bucket.survey().unplaced() == [2]
        with pytest.raises(error, match=said):
            bucket.topics()
    else:
        with pytest.raises(LedgerfsError, match=said):
            bucket.ledger(2).read(0, 0)


def test_a_bucket_of_links_says_which_option_it_takes(folder: Path, made: Offload, tmp_path: Path) -> None:
    put_in_folder(tmp_path, made)
    for key in made.objects:
        (folder / key).symlink_to(tmp_path / key)
    with pytest.raises(AccessDeniedError, match="follow_links=true"):
        open_bucket(str(folder)).load_catalog()
    bucket = open_bucket(str(folder), {"follow_links": True})
    assert entries_of(bucket) == [b"one", b"two"]
    assert "orders" in output("topics", "-o", "follow_links=true", str(folder))


def test_the_bucket_itself_may_be_a_link(folder: Path, made: Offload, tmp_path: Path) -> None:
    put_in_folder(folder, made)
    (tmp_path / "link").symlink_to(folder)
    assert entries_of(open_bucket(str(tmp_path / "link"))) == [b"one", b"two"]


def test_folders_that_are_links_lead_nowhere(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "x").write_bytes(SECRET)
    (folder / "inside").mkdir()
    (folder / "inside" / "x").write_bytes(b"mine")
    (folder / "link").symlink_to(tmp_path / "outside")
    store = LocalStore(str(folder))
    assert store.read(ReadRequest("inside/x", 0, 4)) == b"mine"
    assert store.head("inside/x").stat.size == 4
    for ask in (lambda: store.read(ReadRequest("link/x", 0, 4)), lambda: store.head("link/x")):
        with pytest.raises(AccessDeniedError, match="follow_links=true"):
            ask()
    assert LocalStore(str(folder), follow_links=True).read(ReadRequest("link/x", 0, 4)) == SECRET[:4]


@pytest.mark.parametrize("follow_links", [False, True])
def test_pipes_and_devices_are_not_opened(follow_links: bool, folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "zero").symlink_to("/dev/zero")
    store = LocalStore(str(folder), follow_links=follow_links)
    ended = threading.Event()

    def ask() -> None:
        for key in ("pipe", "zero"):
            with pytest.raises(AccessDeniedError):
                store.read(ReadRequest(key, 0, 4))
        ended.set()

    threading.Thread(target=ask, daemon=True).start()
    assert ended.wait(300)


def test_a_link_to_the_same_bytes_is_not_taken_for_what_was_written(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "same").write_bytes(b"content")
    (folder / "a").symlink_to(tmp_path / "same")
    with pytest.raises(ObjectExistsError):
        LocalStore(str(folder)).writes.put("a", b"content", {})
    assert (folder / "a").is_symlink()
    assert (tmp_path / "same").read_bytes() == b"content"


def test_the_option_is_a_truth_value(folder: Path) -> None:
    with pytest.raises(InvalidOptionError, match="follow_links=maybe"):
        open_bucket(str(folder), {"follow_links": "maybe"})
