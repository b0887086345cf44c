"""Buckets that others use, too: every ledger is found, and nothing that may not be listed is taken for empty."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ledgerfs.bucket.opening import open_bucket
from ledgerfs.errors import AccessDeniedError, UnplacedLedgersWarning, UnreadableObjectsWarning
from ledgerfs.export.export import export_topic
from ledgerfs.fsspec_impl.filesystem import LedgerFileSystem
from tests.support.each import for_each
from tests.support.invoked import run
from tests.support.ledgers import offload, put_in_folder
from tests.support.mapfile_buckets import mapfile, messages, put_file, put_mapfiles
from tests.support.odd_s3 import OddS3

OTHER = "other/default/persistent/orders"
TOPIC = "persistent://public/default/orders"
PAGE = 1000

FOREIGN = {
    "files": [f"lake/part-{number:05}" for number in range(1500)],
    "partitions": [f"lake/table/date={date}/hour={hour}/part" for date in range(10) for hour in range(24)],
    "hashes": [f"lake/{one:02x}/{two:02x}/x" for one in range(16) for two in range(16)],
    "deep": [f"lake/{'deep/' * 40}x"],
}
"""Trees of others."""


@for_each("name", FOREIGN)
def test_ledgers_behind_a_foreign_tree_are_found(name: str, tmp_path: Path) -> None:
    for key in FOREIGN[name]:
        put_file(tmp_path / name / key, b"")
    base = f"{Path(FOREIGN[name][0]).parent}/zz"
    url = put_mapfiles(tmp_path / name, mapfile(messages(1, 5), 1), base=base)
    assert open_bucket(url).topic(TOPIC).count() == 5


FOREIGN_KEYS = {
    "files": lambda number: f"lake/{number:06}",
    "a tenant of the name": lambda number: f"public/assets/{number:06}",
    "beside topics": lambda number: f"lake/zz/public/default/persistent/junk{number:06}",
    "tables": lambda number: f"lake/table-{number % 4}/date={number // 400:03}/{number:06}",
    "many folders": lambda number: f"lake/{number // 5:06}/{number:06}",
}
"""{tree of others: name of a key}."""


@for_each("name", FOREIGN_KEYS)
def test_every_ledger_of_a_shared_bucket_is_found(name: str) -> None:
    """However many foreign keys come before it, in its folder or in others: half of a topic would be read with exit code 0."""
    objects = {FOREIGN_KEYS[name](number): b"" for number in range(12_000)}
    for ledger_id, base in enumerate(("0", "lake/zz", "z", "")):
        made = mapfile(messages(1, 5), ledger_id)
        objects |= {f"{base}/{one}".strip("/"): data for one, data in made.objects.items()}
    with OddS3(objects, {}, page_size=PAGE) as store:
        bucket = open_bucket(f"s3://{name.replace(' ', '-')}", store.options)
        assert [(one.name, one.ledgers) for one in bucket.topics()] == [(TOPIC, 4)]
        assert bucket.topic(TOPIC).count() == 20


def test_a_store_that_lists_in_no_order_is_listed_on() -> None:
    objects = {f"lake/table/{number:06}": b"" for number in range(3000)}
    objects |= {f"lake/zz/{key}": data for key, data in mapfile(messages(1, 5), 1).objects.items()}
    with OddS3(objects, {}, page_size=PAGE, is_shuffled=True) as store:
        assert open_bucket("s3://shared", store.options).topic(TOPIC).count() == 5


@pytest.fixture
def deny(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return what denies the listing of one folder."""
    scan, denied = os.scandir, [""]

    def scandir(path: Any) -> Any:
        if denied[0] and str(path).rstrip("/").endswith(denied[0]):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", scandir)
    return lambda name: denied.__setitem__(0, name)


@for_each("denied", ["private", "lake/public", "public", "public/default"])
def test_a_denied_folder_fails_all_but_the_names_of_topics(
    denied: str, deny: Callable[[str], None], case_path: Path
) -> None:
    (case_path / denied).mkdir(parents=True)
    put_file(case_path / "lake/table/part-1", b"")
    url = put_in_folder(case_path, offload(messages(9, 3), 9), offload(messages(8, 4), 8, name=OTHER))
    deny(denied)
    with pytest.warns(UnplacedLedgersWarning, match=f"cannot list {denied}/"):
        assert len(open_bucket(url).load_to_name_topics().topics()) == 2
    shown = run("topics", url, "--json")
    assert len(json.loads(shown.stdout)) == 2
    assert f"cannot list {denied}/".encode() in shown.stderr
    bucket = open_bucket(url)
    with pytest.warns(UnplacedLedgersWarning):
        bucket.load_to_name_topics()
    # What named topics reads none.
    with pytest.raises(AccessDeniedError, match=f"^{denied}/: cannot list a folder that may contain ledgers"):
        bucket.topic(TOPIC)
    for topic in (TOPIC, "other/default/orders", "public/default/absent"):
        run("count", url, topic, code=3)
    run("count", url, TOPIC, "--on-unreadable", "skip", code=1)
    run("offload", url, str(case_path.with_name(f"{case_path.name}-copy")), code=3)
    run("verify", url, "--quick", code=3)
    with pytest.raises(AccessDeniedError):
        LedgerFileSystem(url, "file").pipe_file(
            "entries/public/default/orders/70.entries", offload(messages(9, 3), 9).records
        )
    assert not list(case_path.glob("*-ledger-70*"))
    # The layout of the top level needs no folder.
    assert open_bucket(url, layout="pulsar_blob").topic(TOPIC).count() == 3


def test_a_topic_that_was_opened_before_is_not_read_without_a_folder_that_is_denied_later(
    deny: Callable[[str], None], tmp_path: Path
) -> None:
    put_mapfiles(tmp_path, mapfile(messages(1, 5), 1))
    url = put_in_folder(tmp_path, offload(messages(9, 3), 9))
    topic = open_bucket(url).topic(TOPIC)
    assert topic.count() == 8
    deny("public")
    for read in (topic.bucket.refresh, lambda: export_topic(topic, tmp_path / "out", "jsonl"), topic.count):
        with pytest.raises(AccessDeniedError):
            read()


def test_a_denied_folder_among_ledgers_fails_all(deny: Callable[[str], None], tmp_path: Path) -> None:
    made = mapfile(messages(1, 5), 1), mapfile(messages(3, 5), 3, name="public/other/persistent/payments")
    url = put_mapfiles(tmp_path, *made, base="lake")
    deny("lake/public/other")
    with pytest.raises(AccessDeniedError, match=r"^lake/public/other/: cannot list a folder that may contain ledgers"):
        open_bucket(url).topics()
    with pytest.warns(UnreadableObjectsWarning, match="lake/public/other/"):
        assert open_bucket(url, on_unreadable="skip").topic(TOPIC).count() == 5
