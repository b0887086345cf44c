"""What tells buckets apart: all that makes them others, nothing that does not, and no credential."""

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fsspec.spec import AbstractFileSystem

from ledgerfs import open_bucket
from ledgerfs.scan.options import ScanOptions
from ledgerfs.storage.store_identity import identity_of
from ledgerfs.vfs.views.ledger_tables import LedgerTables
from tests.support.ledgers import offload, put_in_folder


class Container(AbstractFileSystem):  # type: ignore[misc]
    """As Azure's: the account is told by its name, or within a connection string."""

    protocol = "container"

    def __init__(
        self,
        account_name: str | None = None,
        connection_string: str | None = None,
        account_key: str | None = None,
        **more: Any,
    ) -> None:
        super().__init__(**more)


def reported_of(*args: Any, root: str = "/tier", **options: Any) -> str | None:
    return identity_of(Container(*args, **options, skip_instance_cache=True), root)


@pytest.fixture
def bucket_folder(tmp_path: Path) -> Path:
    (tmp_path / "bucket").mkdir()
    put_in_folder(tmp_path / "bucket", offload([b"x"], 1, uuid=1))
    return tmp_path / "bucket"


def ids(folder: Path) -> list[int]:
    """Open a folder by the catalog that is kept of it, if there is one."""
    return [ref.ledger_id for ref in open_bucket(str(folder), catalog_max_age=3600).catalog.refs()]


def test_accounts_with_one_container_name_are_reported_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    def connection(account: str, key: str) -> str:
        return (
            f"DefaultEndpointsProtocol=https;AccountName={account};AccountKey={key}==;EndpointSuffix=core.windows.net"
        )

    reported = [
        reported_of(),
        reported_of("one"),
        reported_of("two"),
        reported_of(connection_string=connection("one", "hidden")),
        reported_of(connection_string=connection("two", "hidden")),
    ]
    assert None not in reported
    assert len(set(reported)) == 5
    assert reported[3] == reported_of(connection_string=connection("one", "other"))
    for account in ("one", "two"):
        monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", connection(account, "hidden"))
        reported.append(reported_of())
    assert len(set(reported)) == 7
    assert not [one for one in reported if "hidden" in str(one)]


def test_one_bucket_is_the_same_however_its_options_are_given() -> None:
    wanted = reported_of("one", account_key="k")
    assert (
        wanted
        == reported_of(account_key="x", account_name="one")
        == reported_of("one", None)
        == reported_of("one", connection_string=None)
    )
    assert wanted == reported_of("one", None, "by place")
    assert wanted != reported_of("one", other=1)
    assert reported_of(a={"x": 1, "y": 2}, b=[1]) == reported_of(b=[1], a={"y": 2, "x": 1})
    for tuning in ({"use_listings_cache": False}, {"max_concurrency": 3}, {"default_block_size": 5}):
        assert wanted == reported_of("one", **tuning)


def test_identities_hold_in_other_processes_and_can_be_read(bucket_folder: Path) -> None:
    code = "import sys, ledgerfs; print(ledgerfs.open_bucket(sys.argv[1]).identity)"
    bucket = open_bucket(f"file://{bucket_folder}")
    done = subprocess.run([sys.executable, "-c", code, bucket_folder], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == bucket.identity
    assert str(bucket_folder) in str(bucket.identity)
    assert pickle.loads(pickle.dumps(bucket)).identity == bucket.identity
    assert open_bucket("memory://nobody-else").identity is None


def test_folders_whose_names_look_like_urls_with_queries_are_reported_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEDGERFS_CACHE_DIR", str(tmp_path / "cache"))
    for number, name in enumerate(("what?a", "what?b", "what", "u:p@what"), 1):
        folder = tmp_path / name
        folder.mkdir()
        put_in_folder(folder, offload([b"x"], number, uuid=number))
        assert ids(folder) == [number]
    assert ids(tmp_path / "what?a") == [1]


def test_users_of_one_host_are_reported_apart_but_not_their_passwords() -> None:
    def reported(url: str) -> str | None:
        return identity_of(Container(base_url=url, skip_instance_cache=True), "/")

    assert (
        reported("https://a:hidden@host/x")
        == reported("https://a:oth@er@host/x")
        != reported("https://b:hidden@host/x")
    )
    assert (
        reported("https://host/x?sig=hidden&v=1")
        == reported("https://host/x?sig=other&v=1")
        != reported("https://host/x?sig=hidden&v=2")
    )
    assert (
        reported_of(username="a", password="hidden")
        == reported_of(username="a")
        != reported_of(username="b", password="hidden")
    )


def test_rendered_files_of_two_endpoints_are_two(bucket_folder: Path) -> None:
    """The same URL, ledger, sizes and versions: only the endpoint is another one."""
    ref = open_bucket(str(bucket_folder)).catalog.ref(0)
    keys = {
        LedgerTables(open_bucket("s3://tier", {"endpoint_url": f"http://{host}"}), ScanOptions()).key(ref, "parquet")
        for host in ("one", "two")
    }
    assert len(keys) == 2


def test_rendered_files_of_a_bucket_that_cannot_be_reported_apart_are_shared_with_none(bucket_folder: Path) -> None:
    ref = open_bucket(str(bucket_folder)).catalog.ref(0)
    assert len({LedgerTables(open_bucket("memory://x"), ScanOptions()).key(ref, "parquet") for _ in range(2)}) == 2
