"""Who writes looks at ledgers of all layouts, whichever the bucket was opened to be read in: ids are unique in a cluster."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from ledgerfs import copy_ledgers, import_rows, open_bucket
from ledgerfs.bucket.bucket import Bucket
from ledgerfs.catalog.same_messages import FIRST_OWN_ID
from ledgerfs.errors import IncompleteCopyError, LedgerExistsError, UnsupportedWriteError
from ledgerfs.fsspec_impl import LedgerFileSystem
from ledgerfs.fuse_mount.incoming_file import IncomingFile
from ledgerfs.layouts.pulsar_blob.ledger_group import LedgerGroup
from ledgerfs.messages.encode.rows import EncodeOptions
from ledgerfs.writing.admission import publish_together
from ledgerfs.writing.claims import IfExists
from ledgerfs.writing.ledger_rows import MessageRows, write_rows
from ledgerfs.writing.write import Wanted
from tests.support.each import for_each
from tests.support.invoked import run
from tests.support.ledgers import NAME, offload, put_in_folder
from tests.support.mapfile_buckets import LONG_AGO, MadeMapFile, mapfile, messages, put_mapfiles
from tests.support.mapfiles import MapFileWriter, RecordCompression

TOPIC = "persistent://public/default/orders"
OTHER = "persistent://public/default/others"
PATH = "entries/public/default/{}/7.entries"
ROWS = pa.table({"value": ["a", "b"]})


@pytest.fixture
def there() -> MadeMapFile:
    return mapfile(messages(7, 20), 7)


def made_bucket(folder: Path) -> Path:
    """Make a bucket with ledger 7 as a MapFile, and nothing else."""
    put_mapfiles(folder / "bucket", mapfile(messages(7, 20), 7))
    return folder / "bucket"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return made_bucket(tmp_path)


def blob_bucket(folder: Path) -> Bucket:
    return open_bucket(f"file://{folder}", layout="pulsar_blob")


def keys(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def by_import(folder: Path, topic: str, if_exists: str = "fail") -> None:
    import_rows(blob_bucket(folder), ROWS, topic, ledger_id=7, if_exists=if_exists)


def by_put(folder: Path, topic: str, if_exists: str = "fail") -> None:
    fs = LedgerFileSystem(f"file://{folder}", target_protocol="file", layout="pulsar_blob")
    fs.pipe_file(PATH.format(topic.rpartition("/")[2]), mapfile(messages(8, 3)).records, if_exists=if_exists)


by_import_of_a_copy, by_put_of_a_copy = (partial(one, if_exists="new-copy") for one in (by_import, by_put))


def by_mount(folder: Path, topic: str) -> None:
    file = IncomingFile(blob_bucket(folder), PATH.format(topic.rpartition("/")[2]), 0, None)
    file.write(mapfile(messages(8, 3)).records, 0)
    file.release()


def by_unbatched_copy(folder: Path, topic: str) -> None:
    source = folder.parent / "source"
    source.mkdir()
    name = f"public/default/persistent/{topic.rpartition('/')[2]}"
    url = put_in_folder(source, offload(messages(3, 5), 3, name=name))
    try:
        copy_ledgers(url, blob_bucket(folder), unbatch=True, ledger_id=7)
    except IncompleteCopyError as error:
        (failed,) = error.report.failed
        assert failed.error is not None
        raise failed.error from error


@for_each("write", [by_import, by_import_of_a_copy, by_put, by_put_of_a_copy, by_mount, by_unbatched_copy])
@for_each("topic", [TOPIC, OTHER])
def test_an_id_that_another_layout_has_is_refused(
    write: Callable[[Path, str], None], topic: str, case_path: Path
) -> None:
    folder = made_bucket(case_path)
    before = keys(folder)
    with pytest.raises(LedgerExistsError, match="7"):
        write(folder, topic)
    assert keys(folder) == before
    assert open_bucket(f"file://{folder}").topic(TOPIC).count() == 20


def test_a_mapfile_that_comes_while_rows_are_written_is_seen(folder: Path, there: MadeMapFile) -> None:
    class Rows:
        schema = ROWS.schema
        rows = 2

        def batches(self) -> object:
            put_mapfiles(folder, mapfile(messages(8, 20), 8))
            return iter(ROWS.to_batches())

    with pytest.raises(LedgerExistsError, match="removed again"):
        import_rows(blob_bucket(folder), Rows(), TOPIC, ledger_id=8)
    assert keys(folder) == {*there.objects, *mapfile(messages(8, 20), 8).objects}


def test_ids_of_our_own_stand_above_those_of_other_layouts(folder: Path) -> None:
    last = FIRST_OWN_ID * 2 - 5000
    put_mapfiles(folder, mapfile(messages(9, 3), last))
    bucket = open_bucket(f"file://{folder}")
    bucket.refresh()
    written = import_rows(bucket, ROWS, TOPIC).written
    assert written.ledger.key.ledger_id > last


@pytest.mark.parametrize("is_same", [True, False])
def test_a_copy_into_a_bucket_that_has_it_in_another_layout(is_same: bool, folder: Path, there: MadeMapFile) -> None:
    source = folder.parent / "source"
    source.mkdir()
    entries = there.entries if is_same else messages(7, 21)
    url = put_in_folder(source, offload(entries, 7, uuid=77))
    before = keys(folder)
    report = copy_ledgers(url, blob_bucket(folder), allow_incomplete=True)
    assert (report.copied, report.skipped, len(report.failed)) == (0, int(is_same), int(not is_same))
    assert keys(folder) == before


def test_removing_leaves_the_other_layout_alone(folder: Path, there: MadeMapFile) -> None:
    put_in_folder(folder, offload(there.entries, 7, uuid=77))
    run("rm", str(folder), PATH.format("orders"), "--yes", "--layout", "pulsar_blob")
    assert keys(folder) == set(there.objects)


def test_a_group_is_not_published_beside_it(folder: Path, there: MadeMapFile) -> None:
    bucket, group = blob_bucket(folder), LedgerGroup.new()
    made = [
        write_rows(
            bucket.raw_store, Wanted(NAME, number, group.new_uuid()).new_ledger(),
            MessageRows(ROWS.schema, ROWS.to_batches()), EncodeOptions(),
        )
        for number in (6, 7)
    ]  # fmt: skip
    with pytest.raises(LedgerExistsError):
        publish_together(bucket, NAME, IfExists.FAIL, made)
    assert keys(folder) == set(there.objects)


def mapfile_import(folder: Path) -> None:
    import_rows(open_bucket(f"file://{folder}", layout="mapfile"), ROWS, TOPIC)


def mapfile_put(folder: Path) -> None:
    fs = LedgerFileSystem(f"file://{folder}", target_protocol="file", layout="mapfile")
    fs.pipe_file(PATH.format("others"), mapfile(messages(8, 3)).records)


def mapfile_copy(folder: Path) -> None:
    source = folder.parent / "source"
    source.mkdir()
    copy_ledgers(put_in_folder(source, offload(messages(3, 5), 3)), open_bucket(f"file://{folder}", layout="mapfile"))


@for_each("write", [mapfile_import, mapfile_put, mapfile_copy])
def test_nothing_is_written_where_it_would_not_be_seen(write: Callable[[Path], None], case_path: Path) -> None:
    folder = made_bucket(case_path)
    before = keys(folder)
    with pytest.raises(UnsupportedWriteError, match="layout=mapfile"):
        write(folder)
    assert keys(folder) == before


@pytest.mark.parametrize("modified", [None, LONG_AGO], ids=["young", "old"])
def test_new_messages_are_not_written_beside_an_unfinished_ledger_of_their_id(
    tmp_path: Path, modified: int | None
) -> None:
    """They would be read in its place, or the topic could not be read any more once it is not young."""
    there = mapfile(messages(7, 300), 7, writer=MapFileWriter(compression=RecordCompression.NONE))
    put_mapfiles(tmp_path, replace(there, data=there.data[: len(there.data) // 2], index=b""), at=modified)
    before = keys(tmp_path)
    with pytest.raises(LedgerExistsError, match="other objects of ledger 7"):
        import_rows(f"file://{tmp_path}", ROWS, TOPIC, ledger_id=7, if_exists="new-copy")
    assert keys(tmp_path) == before
