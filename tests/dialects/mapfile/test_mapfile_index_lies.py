"""Indexes that lead elsewhere: whether a ledger is whole, and what is in it, its data tells, young or old."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.bucket.opening import open_bucket
from ledgerfs.dialects.mapfile import loading, positions
from ledgerfs.errors import LedgerfsError, UnplacedLedgersWarning
from ledgerfs.formats.mapfile.header import RecordCompression
from ledgerfs.formats.mapfile.index import parse_index
from ledgerfs.ledgers.ledger_ref import CatalogState
from ledgerfs.storage.objects import ReadRequest
from ledgerfs.upkeep.verification import verify
from ledgerfs.writing.copy_ledgers import copy_ledgers
from tests.support.ledgers import CREATED_MS
from tests.support.mapfile_buckets import LONG_AGO, MadeMapFile, mapfile, messages, put_mapfiles
from tests.support.mapfiles import MapFileWriter
from tests.support.remote import RemoteFolder

TOPIC = "persistent://public/default/orders"
ENTRIES = messages(2, 300, 300)
WRITERS = {one: MapFileWriter(one, sync_interval=2000, block_bytes=4000, index_interval=8) for one in RecordCompression}
MADE = {one: mapfile(ENTRIES, 2, writer=writer) for one, writer in WRITERS.items()}
Pairs = list[tuple[int, int]]

LAST = {f"the last one {step:+}": step for step in (1, -1, 20, -20, 200, -200, 2000, -2000)}
OTHERS = ["all", "one in the middle", "key", "one before", "more", "header", "of another"]


def pairs_of(made: MadeMapFile) -> Pairs:
    index = parse_index(made.index, data_size=len(made.data))
    return list(zip(index.keys.tolist(), index.positions.tolist(), strict=True))


def lying(lie: str, compression: RecordCompression) -> bytes:
    """Return an index that leads elsewhere."""
    pairs, size = pairs_of(MADE[compression]), len(MADE[compression].data)
    key, position = pairs[-1]
    middle = len(pairs) // 2
    if lie in LAST:
        # Not behind the end, and after the position before: else nobody would believe it for a moment.
        pairs[-1] = (key, min(max(position + LAST[lie], pairs[-2][1] + 1), size - 1))
    elif lie == "all":
        pairs = [(key, min(position + 3, size - 1)) for key, position in pairs]
    elif lie == "one in the middle":
        pairs[middle] = (pairs[middle][0], pairs[middle][1] + 7)
    elif lie == "key":
        # There is such a key, before the place.
        pairs[-1] = (pairs[-2][0] + 1, position)
    elif lie == "one before":
        pairs = [pairs[0], *((key, at) for (key, _), (_, at) in zip(pairs[2:], pairs[1:-1], strict=True))]
        pairs[-1] = (pairs[-1][0], pairs[-1][1] + 1)
    elif lie == "more":
        pairs.append((len(ENTRIES) - 1, size - 5))
    elif lie == "header":
        pairs[0] = (pairs[0][0], 5)
    else:
        other = mapfile(messages(3, 280, 310), 3, writer=WRITERS[compression])
        pairs = [pair for pair in pairs_of(other) if pair[1] < size]
    return WRITERS[compression].index(pairs)


def put(folder: Path, made: MadeMapFile, index: bytes, *, is_young: bool) -> str:
    at = time.time() - 20 if is_young else LONG_AGO
    url = put_mapfiles(folder, mapfile(messages(1, 10), 1))
    put_mapfiles(folder, replace(made, index=index), at=at)
    return url


@pytest.fixture(params=["near", "far"])
def tail(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the start of the data be among the last bytes that are read at most, or only a few markers; let there be many cuts."""
    monkeypatch.setattr(positions, "APART", 9000)
    if request.param == "far":
        monkeypatch.setattr(loading, "TAIL_BYTES", 6000)


@pytest.mark.usefixtures("tail")
@pytest.mark.parametrize("compression", RecordCompression)
@pytest.mark.parametrize("lie", [*LAST, *OTHERS])
@pytest.mark.parametrize("is_young", [True, False], ids=["young", "old"])
def test_a_whole_ledger_is_whole(lie: str, compression: RecordCompression, is_young: bool, tmp_path: Path) -> None:
    url = put(tmp_path, MADE[compression], lying(lie, compression), is_young=is_young)
    bucket = open_bucket(url)
    assert [(one.ledger_id, one.state) for one in bucket.catalog.refs()] == [
        (1, CatalogState.SOUND),
        (2, CatalogState.SOUND),
    ]
    topic = bucket.topic(TOPIC)
    assert topic.count() == 310
    assert topic.scan().to_table()["entry_id"].to_pylist() == [*range(10), *range(300)]
    first = CREATED_MS + 2000 + 150
    assert topic.scan(start_time=first, end_time=first + 10).to_table()["entry_id"].to_pylist() == [*range(150, 160)]
    reader = bucket.ledger(2)
    for entry in (0, 100, 295, 299):
        glance = reader.glance(entry, 50)
        assert (bytes(glance.front), glance.size) == (ENTRIES[entry][:50], len(ENTRIES[entry]))
    assert {one.kind for one in verify(bucket, quick=True).findings} <= {"wrong-index"}
    report = verify(bucket)
    assert {one.kind for one in report.findings} == {"wrong-index"}
    assert report.entries == 310


@pytest.mark.parametrize("compression", RecordCompression)
@pytest.mark.parametrize("lie", ["the last one +1", "the last one -200", "more", "of another"])
def test_it_is_copied(lie: str, compression: RecordCompression, tmp_path: Path) -> None:
    source, target = tmp_path / "a", tmp_path / "b"
    target.mkdir()
    url = put(source, MADE[compression], lying(lie, compression), is_young=True)
    copy_ledgers(open_bucket(url), open_bucket(f"file://{target}"))
    assert open_bucket(f"file://{target}").topic(TOPIC).count() == 310


@pytest.mark.parametrize("kept", [1, 5])
def test_an_index_of_few_positions_is_right(kept: int, tmp_path: Path) -> None:
    made = MADE[RecordCompression.NONE]
    url = put(tmp_path, made, WRITERS[RecordCompression.NONE].index(pairs_of(made)[:kept]), is_young=True)
    assert open_bucket(url).topic(TOPIC).count() == 310
    assert verify(open_bucket(url)).findings == ()


@pytest.mark.usefixtures("tail")
@pytest.mark.parametrize("compression", RecordCompression)
@pytest.mark.parametrize("lie", ["the last one +1", "the last one -200", "none"])
def test_one_that_lacks_its_end_is_not(lie: str, compression: RecordCompression, tmp_path: Path) -> None:
    """Whatever its index says: the last records are not there, or the last one is cut."""
    writer = WRITERS[compression]
    whole = mapfile(ENTRIES, 2, writer=writer, last_entry=309)
    pairs = pairs_of(whole)
    if lie != "none":
        pairs[-1] = (pairs[-1][0], pairs[-1][1] + LAST[lie])
    for made in (whole, replace(whole, data=whole.data[:-3])):
        url = put(tmp_path, made, writer.index(pairs), is_young=True)
        with pytest.warns(UnplacedLedgersWarning, match="uploaded just now"):
            assert open_bucket(url).topic(TOPIC).scan().to_table().num_rows == 10
        url = put(tmp_path, made, writer.index(pairs), is_young=False)
        assert "missing-entries" in {one.kind for one in verify(open_bucket(url), quick=True).findings}


@pytest.mark.parametrize("compression", [RecordCompression.NONE, RecordCompression.RECORD])
@pytest.mark.parametrize("is_whole", [True, False])
def test_without_markers_all_of_the_data_is_walked(
    is_whole: bool, compression: RecordCompression, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "TAIL_BYTES", 6000)
    writer = MapFileWriter(compression, sync_interval=1 << 30, index_interval=8)
    made = mapfile(ENTRIES, 2, writer=writer, last_entry=299 if is_whole else 300)
    pairs = pairs_of(made)
    key, position = pairs[-1]
    for step in (1, -1, 200):
        index = writer.index([*pairs[:-1], (key, position + step)])
        bucket = open_bucket(put(tmp_path, made, index, is_young=True))
        assert [one.ledger_id for one in bucket.catalog.refs()] == ([1, 2] if is_whole else [1])
        url = put(tmp_path, made, index, is_young=False)
        kinds = {one.kind for one in verify(open_bucket(url), quick=True).findings}
        assert kinds == ({"wrong-index"} if is_whole else {"missing-entries"})


class Counted(RemoteFolder):
    """`RemoteFolder` that remembers the requests of lists, too."""

    def read_many(self, requests: Iterable[ReadRequest]) -> Iterator[bytes | LedgerfsError]:
        for request in requests:
            yield self.read(request)


@pytest.mark.parametrize("compression", RecordCompression)
@pytest.mark.parametrize(("lie", "requests"), [("none", 3), ("the last one +1", 4)])
def test_a_right_index_costs_no_request_more(
    lie: str, requests: int, compression: RecordCompression, tmp_path: Path
) -> None:
    """The start of the data, the index, and the last block or records of the data; once more only where these contradict each other."""
    made = MADE[compression]
    put_mapfiles(tmp_path, made if lie == "none" else replace(made, index=lying(lie, compression)))
    store = Counted(tmp_path)
    assert [ref.is_sound for ref in Bucket(store).catalog.refs()] == [True]
    assert len(store.requests) in {3, requests}
    asked = [one.end - one.start for one in store.requests if one.key.endswith("/data")]
    assert asked[1] < 6000
