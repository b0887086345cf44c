"""Buckets that others use, too: no ledger in their folders is passed over, and nothing that may not be listed is taken for empty."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ledgerfs.bucket.opening import open_bucket
from ledgerfs.errors import AccessDeniedError, UnreadableObjectsWarning
from tests.support.each import for_each
from tests.support.ledgers import offload, put_in_folder
from tests.support.mapfile_buckets import mapfile, messages, put_file, put_mapfiles
from tests.support.odd_s3 import OddS3

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
def test_ledgers_behind_any_foreign_tree_are_found(name: str, tmp_path: Path) -> None:
    for key in FOREIGN[name]:
        put_file(tmp_path / name / key, b"")
    base = f"{Path(FOREIGN[name][0]).parent}/zz"
    url = put_mapfiles(tmp_path / name, mapfile(messages(1, 5), 1), base=base)
    assert open_bucket(url).topic(TOPIC).count() == 5


def test_foreign_folders_on_s3_cost_a_request_for_each_thousand_keys(caplog: pytest.LogCaptureFixture) -> None:
    """However many folders they are in: a search folder by folder would send 2,000 requests here."""
    folders = [f"lake/date={date:03}/hour={hour:02}" for date in range(100) for hour in range(20)]
    objects = {f"{folder}/part-{part}": b"" for folder in folders for part in range(5)}
    made = mapfile(messages(1, 5), 1)
    objects |= {f"lake/zz/{key}": data for key, data in made.objects.items()}
    with OddS3(objects, {}, page_size=PAGE) as store:
        assert open_bucket("s3://shared", store.options).topic(TOPIC).count() == 5
        # One is of the top level, and the last one has the ledger.
        assert store.listings == 1 + len(objects) // PAGE + 1
    assert not caplog.records


def test_a_folder_with_very_many_foreign_keys_is_named(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("ledgerfs.catalog.listing._MANY_KEYS", 100)
    for folder in ("many", "few"):
        for number in range(300 if folder == "many" else 99):
            put_file(tmp_path / folder / str(number % 3) / str(number), b"")
    # A mount lists again and again.
    for _ in range(2):
        open_bucket(str(tmp_path)).topics()
    (line,) = (one.getMessage() for one in caplog.records)
    assert "many foreign keys in many/;" in line
    assert "--layout pulsar_blob" in line


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


def test_a_denied_folder_beside_foreign_files_may_have_ledgers(deny: Callable[[str], None], tmp_path: Path) -> None:
    for name in ("part-1", "part-2", "log/1"):
        put_file(tmp_path / "lake/table" / name, b"")
    put_in_folder(tmp_path, offload(messages(9, 3), 9))
    url = put_mapfiles(tmp_path, mapfile(messages(1, 5), 1), base="lake/table/log")
    deny("lake/table/log")
    with pytest.raises(AccessDeniedError, match=r"^lake/table/log/: cannot list a folder that may contain ledgers"):
        open_bucket(url).topics()
    with pytest.warns(UnreadableObjectsWarning, match="lake/table/log/"):
        assert open_bucket(url, on_unreadable="skip").topic(TOPIC).count() == 3
    # Whoever names the layout of the top level needs no folder.
    assert open_bucket(url, layout="pulsar_blob").topic(TOPIC).count() == 3
    deny("")
    assert open_bucket(url).topic(TOPIC).count() == 8
