import json

from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs.formats.mapfile.names import KINDS, FileKind, MapFileLedger, parse_ledger_folder
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
    TOPIC,
    f"{TOPIC}/12-{UUID}/",
    f"{TOPIC}/12-{UUID}x",
    f"{TOPIC}/12-{UUID.upper()}",
    f"{TOPIC}/12_{UUID}",
    f"{TOPIC}/012-{UUID}",
    f"{TOPIC}/-1-{UUID}",
    f"{TOPIC}/+1-{UUID}",
    f"{TOPIC}/\u0661-{UUID}",
    f"{TOPIC}/-{UUID}",
    f"{TOPIC}/{2**63}-{UUID}",
    f"{TOPIC}/{'9' * 40}-{UUID}",
    f"{TOPIC}/{UUID}-ledger-12",
    f"{TOPIC}//12-{UUID}",
    f"/{TOPIC}/12-{UUID}",
    f"public//persistent/orders/12-{UUID}",
    f"public/persistent/orders/12-{UUID}",
    f"a/b/c/public/default/persistent/orders/12-{UUID}",
    f"public/default/non-persistent/orders/12-{UUID}",
    f"public/default/persistent/12-{UUID}",
    f"public/default/persistent/orders/deep/12-{UUID}",
    f"12-{UUID}",
]


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
def test_folders_of_ledgers_are_reported_apart(managed_ledger, ledger_id):
    folder = f"{managed_ledger}/{ledger_id}-{UUID}"
    assert parse_ledger_folder(folder) == MapFileLedger(managed_ledger, ledger_id, UUID)


@for_each("folder", OTHER)
def test_everything_else_is_other(folder):
    assert parse_ledger_folder(folder) is None


@quick
@given(st.lists(components, min_size=2, max_size=3), components, st.integers(0, MAX_INT64), st.uuids().map(str))
def test_built_paths_parse_to_their_parts(entities, topic, ledger_id, uuid):
    ledger = MapFileLedger("/".join([*entities, "persistent", topic]), ledger_id, uuid)
    assert parse_ledger_folder(ledger.folder) == ledger


def test_golden_paths_are_ledgers_of_topics_that_zookeeper_knows(golden_mapfiles):
    bucket = golden_mapfiles / "bucket"
    keys = [path.relative_to(bucket).as_posix() for path in bucket.rglob("*") if path.is_file()]
    kinds = [KINDS[key.rpartition("/")[2]] for key in keys]
    assert {kind: kinds.count(kind) for kind in FileKind} == {
        FileKind.DATA: 63,
        FileKind.INDEX: 63,
        FileKind.CHECKSUM: 126,
        FileKind.OTHER: 0,
    }
    parsed = {parse_ledger_folder(key.rpartition("/")[0]) for key in keys}
    assert len(parsed) == 63
    known = {
        node.removeprefix("/managed-ledgers/") for node in json.loads((golden_mapfiles / "metadata.json").read_text())
    }
    for ledger in parsed:
        assert ledger.managed_ledger in known
        assert parse_managed_ledger_name(ledger.managed_ledger) is not None
