"""A bucket of two layouts, read in both or in one: no choice is answered with what another one found."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ledgerfs import open_bucket
from ledgerfs.bucket.opening import shared_bucket
from ledgerfs.errors import InvalidOptionError
from ledgerfs.export.export import export_topic
from ledgerfs.fsspec_impl import LedgerFileSystem
from ledgerfs.scan.options import ScanOptions
from ledgerfs.storage.url_filesystem import filesystem_of
from ledgerfs.verification import verify
from ledgerfs.vfs.views.ledger_tables import LedgerTables
from tests.support.ledgers import offload, put_in_folder
from tests.support.mapfile_buckets import mapfile, messages, put_mapfiles

TOPIC = "persistent://public/default/orders"
COUNTS = {"auto": 30, "pulsar_blob": 10, "mapfile": 20}
HOUR = 3600.0


def bucket_of_both(folder: Path) -> str:
    """Write ledger 1 as objects, ledger 2 as a MapFile, of one topic, and return the URL."""
    put_mapfiles(folder, mapfile(messages(2, 20), 2))
    return put_in_folder(folder, offload(messages(1, 10), 1))


@pytest.fixture
def url(tmp_path: Path) -> str:
    return bucket_of_both(tmp_path / "bucket")


def by_bucket(url: str, layout: str) -> int:
    return open_bucket(url, layout=layout, catalog_max_age=HOUR).topic(TOPIC).count()


def by_shared_bucket(url: str, layout: str) -> int:
    fs, root = filesystem_of(url, {})
    return shared_bucket(fs, root, None, None, HOUR, layout=layout).topic(TOPIC).count()


def by_pickle(url: str, layout: str) -> int:
    bucket = pickle.loads(pickle.dumps(open_bucket(url, layout=layout, catalog_max_age=HOUR)))
    return int(bucket.topic(TOPIC).count())


def by_fsspec(url: str, layout: str) -> int:
    fs = LedgerFileSystem(url, target_protocol="file", layout=layout, catalog_max_age=HOUR)
    return sum(pq.read_table(fs.open(name)).num_rows for name in fs.glob("parquet/public/default/orders/*"))


@pytest.mark.parametrize("count", [by_bucket, by_shared_bucket, by_pickle, by_fsspec])
def test_a_kept_catalog_is_of_its_layouts(count: Callable[[str, str], int], tmp_path: Path) -> None:
    for first, expected in COUNTS.items():
        url = bucket_of_both(tmp_path / first)
        assert count(url, first) == expected
        assert {layout: count(url, layout) for layout in COUNTS} == COUNTS, first
        assert {layout: count(url, layout) for layout in COUNTS} == COUNTS, "each of its own kept catalog"


def test_a_ledger_of_a_layout_that_is_not_read_is_an_error_of_ours(url: str) -> None:
    (ref,) = open_bucket(url, layout="mapfile").catalog.refs()
    other = open_bucket(url, layout="pulsar_blob")
    with pytest.raises(InvalidOptionError, match="layout=mapfile: the bucket was opened with another layout"):
        other.reader(ref)
    assert not verify(other).is_damaged


def test_rows_rendered_of_one_choice_are_not_served_for_another(url: str) -> None:
    """A part of a chunked message may lie in a ledger of the other layout."""
    buckets = [open_bucket(url, layout=layout) for layout in COUNTS]
    (ref,) = (ref for ref in buckets[0].catalog.refs() if ref.ledger_id == 1)
    assert len({LedgerTables(bucket, ScanOptions()).key(ref, "parquet") for bucket in buckets}) == 3
    assert LedgerTables(open_bucket(url), ScanOptions()).key(ref, "parquet") == LedgerTables(
        buckets[0], ScanOptions()
    ).key(ref, "parquet")


def export(url: str, layout: str, target: Path, **options: Any) -> int:
    export_topic(open_bucket(url, layout=layout).topic(TOPIC), target, "parquet", **options)
    return sum(pq.read_table(path).num_rows for path in target.glob("*.parquet"))


def test_an_export_folder_is_of_one_choice(url: str, tmp_path: Path) -> None:
    for first, expected in COUNTS.items():
        target, others = tmp_path / f"out-{first}", [one for one in COUNTS if one != first]
        for _ in range(2):
            assert export(url, first, target) == expected
        for other in others:
            with pytest.raises(InvalidOptionError, match="with other layout"):
                export(url, other, target)
            rows = sum(pq.read_table(path).num_rows for path in target.glob("*.parquet"))
            assert rows == expected, (first, other)
        assert export(url, others[0], target, overwrite=True) == COUNTS[others[0]], first
