import json

from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs.formats.mapfile.names import (
    FileKind,
    MapFileKey,
    MapFileLedger,
    parse_ledger_folder,
    parse_mapfile_key,
)
from ledgerfs.formats.topic_names import parse_managed_ledger_name
from tests.support.each import for_each

UUID = "0b8f6a3e-07b1-4b6c-9a55-3d2f4c1e9a10"
TOPIC = "public/default/persistent/orders"
MAX_INT64 = 2**63 - 1

quick = settings(deadline=None, max_examples=120)
components = st.text(st.characters(exclude_characters="/", codec="utf-8"), min_size=1, max_size=12)

OTHER = [
    "",
    "/",
    "data",
    "index",
    "/data",
    TOPIC,
    f"{TOPIC}/12-{UUID}",
    f"{TOPIC}/12-{UUID}/",
    f"{TOPIC}/12-{UUID}/Data",
    f"{TOPIC}/12-{UUID}/data/",
    f"{TOPIC}/12-{UUID}/data\n",
    f"{TOPIC}/12-{UUID}/data.crc",
    f"{TOPIC}/12-{UUID}/.data",
    f"{TOPIC}/12-{UUID}/.crc",
    f"{TOPIC}/12-{UUID}/x/data",
    f"{TOPIC}/12-{UUID}x/data",
    f"{TOPIC}/12-{UUID.upper()}/data",
    f"{TOPIC}/12_{UUID}/data",
    f"{TOPIC}/012-{UUID}/data",
    f"{TOPIC}/-1-{UUID}/data",
    f"{TOPIC}/+1-{UUID}/data",
    f"{TOPIC}/\u0661-{UUID}/data",
    f"{TOPIC}/-{UUID}/data",
    f"{TOPIC}/{2**63}-{UUID}/data",
    f"{TOPIC}/{'9' * 40}-{UUID}/data",
    f"{TOPIC}/{UUID}-ledger-12/data",
    f"{TOPIC}//12-{UUID}/data",
    f"/{TOPIC}/12-{UUID}/data",
    f"public//persistent/orders/12-{UUID}/data",
    f"public/persistent/orders/12-{UUID}/data",
    f"a/b/c/public/default/persistent/orders/12-{UUID}/data",
    f"public/default/non-persistent/orders/12-{UUID}/data",
    f"public/default/persistent/12-{UUID}/data",
    f"public/default/persistent/orders/deep/12-{UUID}/data",
    f"12-{UUID}/data",
]


@for_each(
    ("name", "kind"),
    [
        ("data", FileKind.DATA),
        ("index", FileKind.INDEX),
        (".data.crc", FileKind.CHECKSUM),
        (".index.crc", FileKind.CHECKSUM),
    ],
)
@for_each(
    "managed_ledger",
    [
        TOPIC,
        "public/golden/persistent/-partition-0-not",
        "public/golden/persistent/p%C3%A4th%252Fencoded",
        "public/golden/persistent/q%3Fx%3D1%26y%3D%232",
        "tenant/cluster/ns/persistent/b+c%2B%C3%A9",
        "public/default/persistent/persistent",
        "public/default/persistent/not encoded",
    ],
)
@for_each("ledger_id", [0, 12, MAX_INT64])
def test_files_of_a_ledger_are_told_apart(managed_ledger, ledger_id, name, kind):
    key = f"{managed_ledger}/{ledger_id}-{UUID}/{name}"
    assert parse_mapfile_key(key) == MapFileKey(MapFileLedger(managed_ledger, ledger_id, UUID), kind)


@for_each("key", OTHER)
def test_everything_else_is_other(key):
    assert parse_mapfile_key(key) is None


@quick
@given(st.lists(components, min_size=2, max_size=3), components, st.integers(0, MAX_INT64), st.uuids().map(str))
def test_built_paths_parse_to_their_parts(entities, topic, ledger_id, uuid):
    ledger = MapFileLedger("/".join([*entities, "persistent", topic]), ledger_id, uuid)
    assert parse_ledger_folder(ledger.folder) == ledger
    for key, kind in (
        (ledger.data_key, FileKind.DATA),
        (ledger.index_key, FileKind.INDEX),
        (f"{ledger.folder}/.data.crc", FileKind.CHECKSUM),
        (f"{ledger.folder}/.index.crc", FileKind.CHECKSUM),
    ):
        assert parse_mapfile_key(key) == MapFileKey(ledger, kind)


def test_golden_paths_are_ledgers_of_topics_that_zookeeper_knows(golden_mapfiles):
    bucket = golden_mapfiles / "bucket"
    keys = [path.relative_to(bucket).as_posix() for path in bucket.rglob("*") if path.is_file()]
    kinds = [parse_mapfile_key(key).kind for key in keys]
    assert {kind: kinds.count(kind) for kind in FileKind} == {
        FileKind.DATA: 63,
        FileKind.INDEX: 63,
        FileKind.CHECKSUM: 126,
        FileKind.OTHER: 0,
    }
    parsed = {parse_mapfile_key(key).ledger for key in keys}
    assert len(parsed) == 63
    known = {
        node.removeprefix("/managed-ledgers/") for node in json.loads((golden_mapfiles / "metadata.json").read_text())
    }
    for ledger in parsed:
        assert ledger.managed_ledger in known
        assert parse_managed_ledger_name(ledger.managed_ledger) is not None
