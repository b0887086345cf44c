"""Objects that the store refuses to show are never taken for absent: commands end with an error, or leave out exactly these."""

import errno
import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ledgerfs import Bucket, open_bucket
from ledgerfs.catalog import missing_ledgers
from ledgerfs.catalog.findings import Report
from ledgerfs.errors import (
    AccessDeniedError,
    ArchivedObjectError,
    LedgerfsError,
    MissingLedgerError,
    StoreError,
    UnreadableObjectsWarning,
)
from ledgerfs.fsspec_impl.filesystem import LedgerFileSystem
from ledgerfs.fuse_mount.operations import MountedBucket, MountOptions
from ledgerfs.repair import plan_repair
from ledgerfs.scan.report import ScanReport
from ledgerfs.storage.objects import ObjectHead
from ledgerfs.verification import verify
from ledgerfs.vfs.tree import tree_of
from ledgerfs_cluster.recovery.planning import plan_each
from tests.support.invoked import Done, run
from tests.support.lacking import OTHER, OTHER_NAME, TOPIC, LossyBucket, key_of, ledger, lossy_s3
from tests.support.matrix import ENTRIES, make_ledger, small_parts
from tests.support.s3 import Fault, FaultProxy, S3Server
from tests.support.stores import LateStore
from tests.support.tries import without_pauses

MESSAGES = 20
FIRST, SECOND, THIRD = (ledger(number, messages=MESSAGES) for number in (1, 2, 3))
OTHERS = ledger(4, messages=MESSAGES, name=OTHER_NAME)
INDEX, DATA = key_of(SECOND, "-index"), key_of(SECOND)


@pytest.fixture
def place(s3: S3Server, s3_bucket: str) -> LossyBucket:
    made = lossy_s3(s3, s3_bucket)
    for one in (FIRST, SECOND, THIRD):
        made.put(one)
    made.put(OTHERS, name=OTHER_NAME)
    return made


@pytest.fixture
def old(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written just now is old."""
    monkeypatch.setattr(missing_ledgers, "UPLOAD_MS", -missing_ledgers.CLOCKS_MS)


def refused(*keys: str, methods: tuple[str, ...] = ("GET", "HEAD"), kind: str = "403") -> list[Fault]:
    """Return the fault of a store that refuses these objects."""
    return [Fault(kind, matches=lambda method, path, _: method in methods and path.partition("?")[0].endswith(keys))]


OF_UNKNOWN_TOPIC = refused(INDEX, DATA)
OF_KNOWN_TOPIC = refused(INDEX, methods=("GET",))
"""HEAD is allowed, so that user metadata names the topic."""
OF_DATA = refused(DATA)


@pytest.fixture
def opened(place: LossyBucket, proxy: FaultProxy) -> Callable[..., Bucket]:
    return lambda **options: open_bucket(place.url, proxy.options, **options)


@pytest.fixture
def command(place: LossyBucket, proxy: FaultProxy) -> Callable[..., Done]:
    """Run a command, with the bucket for ``BUCKET``."""

    def started(*arguments: str, code: int = 0) -> Done:
        named = (place.url if one == "BUCKET" else one for one in arguments)
        # Unlike the environment, options leave s3fs its clients.
        return run(*named, *(f"-o{name}={value}" for name, value in proxy.options.items()), code=code)

    return started


def ids_in(bucket: Bucket, topic: str = TOPIC, **options: Any) -> list[int]:
    """Return the ids of the ledgers of which there are messages, each once."""
    found = bucket.topic(topic).scan(columns=["ledger_id"], **options).to_arrow()
    return sorted(set(found.column("ledger_id").to_pylist()))


def counts(done: Done) -> dict[str, int | None]:
    return {one["name"]: one["messages"] for one in json.loads(done.stdout)}


def findings(report: Report) -> set[tuple[str, str, str | None]]:
    known = {"unsaved-schemas", "no-user-metadata"}
    return {(one.severity.value, one.kind, one.key) for one in report.findings if one.kind not in known}


@pytest.fixture
def quiet() -> Iterator[None]:
    """No warning is to be given."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


READING = (
    ("topics", "BUCKET"), ("count", "BUCKET"), ("count", "BUCKET", OTHER), ("head", "BUCKET", OTHER), ("ls", "BUCKET"),
    ("info", "BUCKET", "1"), ("cat", "BUCKET", "entries/public/default/orders/1.entries"),
    ("export", "BUCKET", OTHER, "OUT"), ("offload", "BUCKET", "OUT"),
)  # fmt: skip


def test_without_a_topic_it_is_an_error_of_every_command(
    command: Callable[..., Done], opened: Callable[..., Bucket], proxy: FaultProxy, tmp_path: Path
) -> None:
    proxy.faults = OF_UNKNOWN_TOPIC
    for arguments in READING:
        done = command(*(str(tmp_path / "out") if one == "OUT" else one for one in arguments), code=3)
        error = done.stderr.decode()
        assert f"ledgerfs: {INDEX}" in error, arguments
        assert "cannot read an object of unknown topic: access denied: " in error, arguments
        assert "--on-unreadable skip" in error, arguments
        assert not list(tmp_path.rglob("*ledger-*")), arguments
    done = command("repair", "BUCKET", "--on-unreadable", "skip", code=3)
    assert b"ledgerfs writes nothing until it can be read" in done.stderr
    done = command("verify", "BUCKET", code=3)
    assert f"unchecked  unreadable-index  {INDEX}".encode() in done.stdout
    bucket = opened()
    for read in (bucket.topics, lambda: bucket.topic(OTHER), lambda: tree_of(bucket), lambda: plan_repair(bucket)):
        with pytest.raises(AccessDeniedError) as caught:
            read()
        assert caught.value.key == INDEX
    proxy.faults = []
    assert ids_in(bucket) == [1, 2, 3]


def test_skip_reads_the_rest_and_says_so(
    command: Callable[..., Done], opened: Callable[..., Bucket], proxy: FaultProxy, tmp_path: Path
) -> None:
    proxy.faults = OF_UNKNOWN_TOPIC
    for arguments in READING:
        out = tmp_path / arguments[0]
        done = command(*(str(out) if one == "OUT" else one for one in arguments), "--on-unreadable", "skip", code=1)
        assert f"left out objects that the store refuses: {INDEX}: access denied".encode() in done.stderr, arguments
    assert counts(command("count", "BUCKET", "--json", "--on-unreadable", "skip", code=1)) == {
        TOPIC: 2 * MESSAGES,
        OTHER: MESSAGES,
    }
    assert {path.name for path in (tmp_path / "export").iterdir()} >= {"4.parquet"}
    copied = open_bucket(str(tmp_path / "offload"))
    assert (ids_in(copied), ids_in(copied, OTHER)) == ([1, 3], [4])
    with pytest.warns(UnreadableObjectsWarning, match=INDEX):
        assert ids_in(opened(on_unreadable="skip")) == [1, 3]


def test_with_a_topic_only_reading_that_topic_fails(
    command: Callable[..., Done], opened: Callable[..., Bucket], proxy: FaultProxy, tmp_path: Path
) -> None:
    proxy.faults = OF_KNOWN_TOPIC
    done = command("count", "BUCKET", "--json", code=3)
    assert counts(done) == {TOPIC: None, OTHER: MESSAGES}
    assert [(one["damaged"], one["refused"]) for one in json.loads(done.stdout)] == [(False, True), (False, False)]
    assert f"{INDEX} at byte 0: cannot read ledger 2 of {TOPIC}: access denied".encode() in done.stderr
    # The rest may be damaged; this may not.
    command("count", "BUCKET", TOPIC, "--on-corrupt", "skip", code=3)
    command("export", "BUCKET", TOPIC, str(tmp_path / "out"), code=3)
    done = command("topics", "BUCKET", code=3)
    assert f"1 of these ledgers cannot be read, the first at {INDEX}".encode() in done.stderr
    for arguments in (("count", "BUCKET", OTHER), ("head", "BUCKET", OTHER), ("ls", "BUCKET")):
        command(*arguments)
    command("export", "BUCKET", OTHER, str(tmp_path / "others"))
    done = command("verify", "BUCKET", code=3)
    assert f"unchecked  unreadable-index  {INDEX}".encode() in done.stdout
    done = command("repair", "BUCKET", code=3)
    assert b"left alone: it may be undamaged" in done.stdout
    done = command("offload", "BUCKET", str(tmp_path / "copy"), code=3)
    assert INDEX.encode() in done.stderr
    copied = open_bucket(str(tmp_path / "copy"))
    assert (ids_in(copied), ids_in(copied, OTHER)) == ([1, 3], [4])
    bucket = opened()
    reads: list[Callable[[], object]] = [
        lambda: ids_in(bucket),
        lambda: bucket.topic(TOPIC).message((2, 0)),
        lambda: bucket.ledger(2),
    ]
    for read in reads:
        with pytest.raises(AccessDeniedError, match="ledger 2") as caught:
            read()
        assert caught.value.key == INDEX
    assert bucket.topic(TOPIC).message((1, 0)).value == b"1:0"
    (plan,) = (one for one in plan_each(bucket.catalog) if one.topic == TOPIC)
    assert plan.reason is not None
    assert f"the store refuses access to ledger 2, {INDEX}: access denied" in plan.reason


def test_with_a_topic_skip_leaves_out_that_ledger(
    command: Callable[..., Done], opened: Callable[..., Bucket], proxy: FaultProxy, quiet: None
) -> None:
    proxy.faults = OF_KNOWN_TOPIC
    done = command("count", "BUCKET", "--json", "--on-unreadable", "skip", code=1)
    assert counts(done) == {TOPIC: 2 * MESSAGES, OTHER: MESSAGES}
    assert f"{TOPIC}: left out ledger 2: access denied".encode() in done.stderr
    command("count", "BUCKET", OTHER, "--on-unreadable", "skip")
    scan = opened(on_unreadable="skip").topic(TOPIC).scan()
    assert (scan.count(), [one.ledger_id for one in scan.missing]) == (2 * MESSAGES, [2])


def test_the_tree_has_the_file_of_a_refused_ledger(opened: Callable[..., Bucket], proxy: FaultProxy) -> None:
    proxy.faults = OF_KNOWN_TOPIC
    bucket = opened()
    (lost,) = (one for one in tree_of(bucket).children("entries/public/default/orders") if one.missing is not None)
    assert lost.path.startswith("entries/public/default/orders/2")
    with pytest.raises(AccessDeniedError) as caught:
        tree_of(bucket).open(lost.path)
    assert (caught.value.key, caught.value.path) == (INDEX, lost.path)
    mounted = MountedBucket(bucket, MountOptions(refresh_seconds=3600))
    try:
        # Whoever lists the folder sees all files.
        assert mounted.attributes(f"/{lost.path}").size > 0
        with pytest.raises(OSError, match="access denied") as opening:
            mounted.open(f"/{lost.path}")
        assert opening.value.errno == errno.EACCES
    finally:
        mounted.close()


@pytest.mark.parametrize("faults", [OF_KNOWN_TOPIC, OF_DATA], ids=["missing", "skipped"])
def test_a_count_without_refused_ledgers_is_a_warning(
    faults: list[Fault], opened: Callable[..., Bucket], proxy: FaultProxy
) -> None:
    proxy.faults = faults
    bucket = opened(on_unreadable="skip")
    with pytest.warns(UnreadableObjectsWarning, match=rf"40 messages were counted; left out: .*{DATA}"):
        assert bucket.topic(TOPIC).count() == 2 * MESSAGES
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert bucket.topic(OTHER).count() == MESSAGES


def test_the_rest_of_a_ledger_is_left_out_from_where_the_store_refuses_it(
    place: LossyBucket, opened: Callable[..., Bucket], proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_parts(monkeypatch)
    made = make_ledger(2)
    place.put(made)

    def is_behind_the_middle(method: str, path: str, headers: Any) -> bool:
        start = headers.get("range", "bytes=0-").removeprefix("bytes=").partition("-")[0]
        return method == "GET" and path.partition("?")[0].endswith(DATA) and int(start) > len(made.data) // 2

    proxy.faults = [Fault("403", matches=is_behind_the_middle)]
    scan = opened(on_unreadable="skip").topic(TOPIC).scan(columns=["ledger_id", "entry_id"])
    report = ScanReport()
    rows = [(row["ledger_id"], row["entry_id"]) for row in scan.to_arrow(report).to_pylist()]
    (one,) = report.skipped
    assert (one.ledger_id, one.last_entry) == (2, ENTRIES - 1)
    assert 0 < one.first_entry < ENTRIES
    expected = {1: MESSAGES, 2: one.first_entry, 3: MESSAGES}
    assert rows == [(number, entry) for number, count in expected.items() for entry in range(count)]


def test_an_export_writes_the_file_once_the_store_allows_it(
    command: Callable[..., Done], proxy: FaultProxy, tmp_path: Path
) -> None:
    for number, faults in enumerate((OF_KNOWN_TOPIC, OF_DATA)):
        out = tmp_path / str(number)
        arguments = ("export", "BUCKET", TOPIC, str(out), "--format", "jsonl")
        proxy.faults = faults
        command(*arguments, code=3)
        command(*arguments, "--on-unreadable", "skip", code=1)
        assert {path.name for path in out.glob("*.jsonl")} == {"1.jsonl", "3.jsonl"}
        first = (out / "1.jsonl").stat()
        proxy.faults = []
        command(*arguments)
        assert {path.name for path in out.glob("*.jsonl")} == {"1.jsonl", "2.jsonl", "3.jsonl"}
        assert len((out / "2.jsonl").read_text().splitlines()) == MESSAGES
        assert (out / "1.jsonl").stat() == first


def test_data_that_was_not_listed_is_not_lost_when_head_is_refused(
    place: LossyBucket, tmp_path: Path, old: None
) -> None:
    store = LateStore(place.open().raw_store)
    store.unlisted, store.is_refusing = (DATA,), True

    def opened(**options: Any) -> Bucket:
        return Bucket(store, str(tmp_path), identity="s3://of-this-test", **options)  # type: ignore[arg-type]

    bucket = opened()
    with pytest.raises(ArchivedObjectError, match="cannot read ledger 2") as caught:
        ids_in(bucket, on_corrupt="skip")
    assert caught.value.key == DATA
    assert ids_in(opened(on_unreadable="skip")) == [1, 3]
    assert ids_in(bucket, OTHER) == [4]
    assert findings(verify(bucket)) == {("unchecked", "unreadable-object", DATA)}
    (item,) = (one for one in plan_repair(bucket, older_than_s=0).items if one.kind == "index-without-data")
    assert (item.action_name, item.severity.value) == ("nothing", "unchecked")
    # Neither in this process nor in another one it counts as known.
    store.is_refusing = False
    bucket.refresh()
    assert ids_in(bucket) == ids_in(opened()) == [1, 2, 3]


def test_data_of_unknown_topic_is_an_error_when_head_is_refused(place: LossyBucket) -> None:
    orphan = ledger(7, messages=MESSAGES)
    place.put_object(key_of(orphan), orphan.data)
    store = LateStore(place.open().raw_store)
    bucket = Bucket(store)  # type: ignore[arg-type]
    assert ids_in(bucket) == [1, 2, 3]

    def refuse(key: str) -> ObjectHead:
        raise AccessDeniedError("no", key=key)

    store.head = refuse  # type: ignore[method-assign]
    other = Bucket(store)  # type: ignore[arg-type]
    with pytest.raises(AccessDeniedError, match=key_of(orphan)):
        other.topics()
    assert ("unchecked", "unreadable-object", key_of(orphan)) in findings(verify(other, quick=True))
    with pytest.warns(UnreadableObjectsWarning, match=key_of(orphan)):
        assert ids_in(Bucket(store, on_unreadable="skip")) == [1, 2, 3]  # type: ignore[arg-type]


def test_a_copy_that_cannot_be_compared_is_not_lost(
    place: LossyBucket, opened: Callable[..., Bucket], proxy: FaultProxy, old: None
) -> None:
    copy = ledger(1, uuid=9, messages=MESSAGES)
    place.put_object(key_of(copy), copy.data)
    proxy.faults = refused(key_of(copy), methods=("GET",))
    bucket = opened()
    with pytest.raises(AccessDeniedError, match="cannot read ledger 1") as caught:
        ids_in(bucket)
    assert caught.value.key == key_of(copy)
    assert ids_in(opened(on_unreadable="skip")) == [1, 2, 3]
    proxy.faults = []
    bucket.refresh()
    assert ids_in(bucket) == [1, 2, 3]


def test_a_refused_copy_of_a_ledger_is_not_hidden_by_a_lost_one(
    place: LossyBucket, opened: Callable[..., Bucket], proxy: FaultProxy
) -> None:
    lost = ledger(2, uuid=1, messages=MESSAGES)
    place.put_object(key_of(lost, "-index"), lost.index)
    proxy.faults = OF_KNOWN_TOPIC
    with pytest.raises(AccessDeniedError, match=INDEX):
        ids_in(opened(), on_corrupt="skip")


@pytest.mark.parametrize("faults", [OF_UNKNOWN_TOPIC, OF_KNOWN_TOPIC])
@pytest.mark.parametrize("on_unreadable", ["raise", "skip"])
@pytest.mark.parametrize("layout", ["auto", "mapfile"])
def test_a_catalog_without_what_was_refused_is_never_cached(
    layout: str,
    on_unreadable: str,
    faults: list[Fault],
    opened: Callable[..., Bucket],
    proxy: FaultProxy,
    tmp_path: Path,
) -> None:
    proxy.faults = faults
    cached = {"cache_dir": str(tmp_path), "catalog_max_age": 3600}
    bucket = opened(layout=layout, on_unreadable=on_unreadable, **cached)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for read in (bucket.topics, bucket.list_all):
            try:
                read()
            except AccessDeniedError:
                assert faults is OF_UNKNOWN_TOPIC
    if layout == "auto":
        assert not [path for path in tmp_path.rglob("*") if path.is_file() and "catalog" in path.name]
    proxy.faults = []
    assert ids_in(opened(**cached)) == [1, 2, 3]


def test_writing_never_skips(opened: Callable[..., Bucket], proxy: FaultProxy, place: LossyBucket) -> None:
    proxy.faults = OF_UNKNOWN_TOPIC
    bucket = opened(on_unreadable="skip")
    for read in (bucket.list_to_write, bucket.list_all):
        with pytest.raises(AccessDeniedError, match="ledgerfs writes nothing until it can be read") as caught:
            read()
        assert caught.value.key == INDEX
    # What was listed to write does not change how the bucket is read.
    proxy.faults = OF_KNOWN_TOPIC
    bucket.list_to_write()
    assert ids_in(bucket) == [1, 3]


def test_a_damaged_index_is_damage_as_before(
    command: Callable[..., Done], opened: Callable[..., Bucket], place: LossyBucket
) -> None:
    place.put_object(INDEX, b"damaged")
    for on_unreadable in ("raise", "skip"):
        with pytest.raises(MissingLedgerError, match="its index cannot be read"):
            ids_in(opened(on_unreadable=on_unreadable))
    assert ids_in(opened(), on_corrupt="skip") == [1, 3]
    done = command("count", "BUCKET", "--json", code=1)
    assert counts(done) == {TOPIC: None, OTHER: MESSAGES}


def test_a_store_that_fails_for_good_has_refused(
    opened: Callable[..., Bucket], proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_pauses(monkeypatch)
    proxy.faults = refused(INDEX, DATA, kind="500")
    bucket = opened()
    with pytest.raises(StoreError, match="cannot read an object of unknown topic"):
        bucket.topics()
    with pytest.warns(UnreadableObjectsWarning, match=INDEX):
        assert ids_in(opened(on_unreadable="skip")) == [1, 3]


def test_a_bucket_of_which_everything_is_refused(
    place: LossyBucket, command: Callable[..., Done], opened: Callable[..., Bucket], proxy: FaultProxy
) -> None:
    indexes = tuple(key_of(one, "-index") for one in (FIRST, SECOND, THIRD, OTHERS))
    proxy.faults = refused(*indexes, methods=("GET",))
    assert sorted(one.name for one in opened().topics()) == [TOPIC, OTHER]
    command("count", "BUCKET", code=3)
    command("count", "BUCKET", "--on-unreadable", "skip", code=1)
    proxy.faults = refused(*indexes, *(key.removesuffix("-index") for key in indexes))
    for name in ("topics", "count", "ls"):
        done = command(name, "BUCKET", "--on-unreadable", "skip", code=1)
        assert b"left out objects that the store refuses: " in done.stderr
        assert b"and 3 more" in done.stderr
    done = command("count", "BUCKET", TOPIC, "--on-unreadable", "skip", code=2)
    assert b"the topics of 4 ledgers cannot be determined" in done.stderr
    options = {"fo": place.url, "target_options": proxy.options, "on_unreadable": "skip"}
    with pytest.warns(UnreadableObjectsWarning, match="and 3 more"):
        assert LedgerFileSystem(**options, skip_instance_cache=True).find("entries") == []
    proxy.faults = refused("", methods=("GET",))
    with pytest.raises(LedgerfsError, match="access denied"):
        opened(on_unreadable="skip").topics()
