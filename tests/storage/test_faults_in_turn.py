"""A fault at each request of each way to use a bucket, in turn: the right rows, or our error; never other rows, and never without end.

A fault that is over when a request is sent again may go unnoticed. Exit code 1 of `verify` and `repair` would call sound objects damaged.
"""

import asyncio
from collections.abc import Iterator
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow.dataset as ds
import pytest

from ledgerfs import errors
from ledgerfs.cache.block_cache import process_cache
from ledgerfs.errors import AccessDeniedError, LedgerfsError
from ledgerfs.fuse_mount.operations import MountedBucket, MountOptions
from ledgerfs.storage.s3.store import S3Store
from ledgerfs.verification import verify
from tests.support.faults_in_turn import (
    IN_MAPFILES,
    KINDS,
    MOST_REQUESTS,
    FaultAt,
    FaultyBucket,
    Operation,
    faults_of,
)
from tests.support.lacking import TOPIC
from tests.support.tries import without_pauses

COLUMNS = ["ledger_id", "entry_id", "value"]


def command(*arguments: str) -> Operation:
    return lambda place: place.command(*arguments)


def writing(*arguments: str) -> Operation:
    def operation(place: FaultyBucket) -> dict[str, bytes]:
        place.command(*arguments)
        return changed(place)

    return operation


def changed(place: FaultyBucket) -> dict[str, bytes]:
    """Return the files that were written, unfinished ones left out, and the objects that were deleted, without bytes."""
    files = (path for path in place.out.rglob("*") if path.is_file() and not path.name.startswith((".", "_")))
    deleted = place.objects.keys() - place.odd.objects.keys()
    return {str(path.relative_to(place.out)): path.read_bytes() for path in files} | dict.fromkeys(deleted, b"")


def sources(place: FaultyBucket) -> Any:
    return {
        topic: place.open().topic(topic).scan(columns=COLUMNS).to_arrow().to_pylist() for topic in (TOPIC, IN_MAPFILES)
    }


def messages(place: FaultyBucket) -> Any:
    bucket = place.open()
    return [bucket.topic(topic).message((number, 3)).value for topic, number in ((TOPIC, 1), (IN_MAPFILES, 5))]


def with_pandas(place: FaultyBucket) -> Any:
    with place.files().open("parquet/public/default/orders/2.parquet") as file:
        return pd.read_parquet(file, columns=COLUMNS).to_dict("records")


def with_duckdb(place: FaultyBucket) -> Any:
    connection = duckdb.connect()
    connection.register_filesystem(place.files())
    files = "ledger://parquet/public/default/orders/*.parquet"
    try:
        return connection.sql(f"select ledger_id, entry_id, value from '{files}' order by all").fetchall()
    except duckdb.Error as error:
        # Its text has our error.
        if any(f"{name}: " in str(error) for name in errors.__all__):
            raise LedgerfsError("DuckDB could not read the files") from error
        raise


def with_polars(place: FaultyBucket) -> Any:
    topic = ds.dataset("parquet/public/default/shipments", filesystem=place.files())
    return pl.scan_pyarrow_dataset(topic).select(COLUMNS).collect().rows()


def walked(place: FaultyBucket) -> Any:
    files = place.files()
    found = {path: (set(folders), set(names)) for path, folders, names in files.walk("")}
    paths = files.find("entries")
    return found, [files.cat_file(path) for path in paths]


def mounted(place: FaultyBucket) -> Any:
    """List all files and read some; do it again after a refresh, of which an error leaves the known listing."""
    mount = MountedBucket(place.open(), MountOptions(refresh_seconds=3600))
    try:
        before, names = seen_in(mount), names_in(mount)
        try:
            mount.refresh()
        except LedgerfsError:
            assert names_in(mount) == names
            raise
        return before, seen_in(mount)
    finally:
        mount.close()


def names_in(mount: MountedBucket) -> Any:
    return sorted(name for name, _ in mount.entries("/entries/public/default/orders"))


def content_of(mount: MountedBucket, handle: int) -> bytes:
    buffer = bytearray(1 << 20)
    return bytes(buffer[: mount.read_into(handle, 0, memoryview(buffer))])


def seen_in(mount: MountedBucket) -> Any:
    found: list[Any] = []
    folders = ["/"]
    while folders:
        folder = folders.pop()
        for name, attributes in mount.entries(folder):
            path = f"{folder.rstrip('/')}/{name}"
            found.append(path)
            if attributes.is_directory:
                folders.append(path)
            elif path.startswith("/entries/"):
                handle = mount.open(path)
                found.append(content_of(mount, handle))
                mount.release(handle)
    return found


OPERATIONS: dict[str, Operation] = {
    "topics": command("topics", "BUCKET", "--json"),
    "ls": command("ls", "BUCKET", "entries/public/default/orders"),
    "head": command("head", "BUCKET", TOPIC, "--json"),
    "head of MapFiles": command("head", "BUCKET", IN_MAPFILES, "--json"),
    "cat entries": command(
        "cat", "BUCKET", "entries/public/default/orders/1.entries", "entries/public/default/shipments/4.entries"
    ),
    "cat jsonl": command("cat", "BUCKET", "jsonl/public/default/orders/1.jsonl"),
    "count": command("count", "BUCKET", "--json"),
    "count of a topic": command("count", "BUCKET", TOPIC, "--json"),
    "info": command("info", "BUCKET", "1", "--json"),
    "info of a MapFile": command("info", "BUCKET", "4", "--json"),
    "verify": command("verify", "BUCKET", "--json"),
    "verify --quick": command("verify", "BUCKET", "--json", "--quick"),
    "repair": command("repair", "BUCKET", "--json"),
    "schemas ls": command("schemas", "ls", "BUCKET", "--json"),
    "export parquet": writing("export", "BUCKET", TOPIC, "OUT"),
    "export jsonl": writing("export", "BUCKET", IN_MAPFILES, "OUT", "--format", "jsonl"),
    "export arrow": writing("export", "BUCKET", TOPIC, "OUT", "--format", "arrow"),
    "export csv": writing("export", "BUCKET", TOPIC, "OUT", "--format", "csv"),
    "offload": writing("offload", "BUCKET", "OUT"),
    "rm": writing("rm", "BUCKET", "entries/public/default/orders/2.entries", "--yes"),
    "scan": sources,
    "message": messages,
    "pandas": with_pandas,
    "duckdb": with_duckdb,
    "polars": with_polars,
    "walk": walked,
    "mount": mounted,
}


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyBucket]:
    with FaultyBucket.started(tmp_path_factory.mktemp("faults")) as made:
        yield made


@pytest.fixture
def place(bucket: FaultyBucket, monkeypatch: pytest.MonkeyPatch) -> FaultyBucket:
    without_pauses(monkeypatch)
    # Refused requests are still sent once more; making new clients for that takes long.
    monkeypatch.setattr(S3Store, "_renew", lambda store: asyncio.sleep(0))
    return bucket


@pytest.mark.long
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_fault_is_not_noticed_or_an_error(
    name: str, place: FaultyBucket, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    operation = OPERATIONS[name]
    right, requests = place.requests_of(operation, monkeypatch)
    wrong, failed, count = [], 0, 0
    for fault in faults_of(requests, 3 * list(OPERATIONS).index(name)):
        count += 1
        try:
            outcome = place.meet(operation, fault, monkeypatch)
        except Exception as error:  # noqa: BLE001  (all of them are of interest)
            wrong.append(f"{fault}: {error!r}")
            continue
        done = changed(place)
        if fault.requests > MOST_REQUESTS:
            wrong.append(f"{fault}: never ends")
        elif isinstance(outcome, LedgerfsError):
            failed += 1
            if not done.items() <= (right if isinstance(right, dict) else {}).items():
                wrong.append(f"{fault}: {outcome}, and changed {sorted(done)}")
        elif outcome != right:
            wrong.append(f"{fault}: {outcome!r:.1000} and not {right!r:.1000}")
    with capsys.disabled():
        print(f"\n{name}: {len(requests)} requests, {count} faults, {failed} errors")
    assert not wrong, "\n".join(wrong)
    assert count


def topics(place: FaultyBucket) -> Any:
    return place.open().topics()


def test_no_fault_stays_in_a_cached_catalog(place: FaultyBucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEDGERFS_CATALOG_MAX_AGE", "3600")
    right, requests = place.requests_of(topics, monkeypatch)
    for fault in faults_of(requests, 1):
        place.meet(topics, fault, monkeypatch)
        process_cache.clear()
        assert topics(place) == right, fault


def test_a_folder_of_which_the_second_page_is_refused_is_an_error(
    place: FaultyBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    (denied,) = (kind for kind in KINDS if kind.name == "denied")
    _, requests = place.requests_of(topics, monkeypatch)
    # The first page ends between the two objects of a MapFile.
    number = 1 + max(at for at, request in enumerate(requests) if "continuation-token" in request.query)
    assert requests[number - 1].query["prefix"] == "public/"
    outcome = place.meet(lambda place: verify(place.open(), quick=True), FaultAt(denied, number, True), monkeypatch)
    assert isinstance(outcome, AccessDeniedError)
