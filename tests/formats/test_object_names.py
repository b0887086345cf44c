from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs.formats.pulsar_blob.object_names import KeyKind, LedgerKey, kind_of_key, parse_ledger_key
from tests.support.each import for_each

UUID = "0b1f9e2c-7a44-4c0e-9d3f-00112233aabb"
MAX_INT64 = 2**63 - 1

quick = settings(deadline=None, max_examples=80)
ledger_ids = st.integers(0, MAX_INT64)
uuids = st.uuids().map(str)

FOREIGN = [
    "",
    "x",
    "logs/2024/file.txt",
    UUID.upper(),
    f"{UUID.upper()}-ledger-1",
    f"{UUID.upper()}-ledger-1-index",
    f"{UUID}-ledger-",
    f"{UUID}-ledger--index",
    f"{UUID}-ledger--1",
    f"{UUID}-ledger-+1",
    f"{UUID}-ledger-01",
    f"{UUID}-ledger-00",
    f"{UUID}-ledger-007-index",
    f"{UUID}-ledger-1_0",
    f"{UUID}-ledger-1.0",
    f"{UUID}-ledger-x",
    f"{UUID}-ledger-1 ",
    f"{UUID}-ledger-1\n",
    f" {UUID}-ledger-1",
    f"{UUID}-ledger-1-index\n",
    f"{UUID}-ledger-1-INDEX",
    f"{UUID}-ledger-1-index-index",
    f"{UUID}-LEDGER-1",
    f"{UUID}-ledger-\N{ARABIC-INDIC DIGIT ONE}",
    f"{UUID}-ledger-{2**63}",
    f"{UUID}-ledger-{2**63}-index",
    f"{UUID}-ledger-{2**64}",
    f"{UUID}-ledger-{'9' * 19}",
    f"{UUID}-ledger-{'1' * 100}",
    f"folder/{UUID}-ledger-1",
    f"{UUID[1:]}-ledger-1",
    f"0{UUID}-ledger-1",
    f"{UUID.replace('-', '')}-ledger-1",
    f"{UUID.replace('b', 'g')}-ledger-1",
    f"{{{UUID}}}-ledger-1",
    f"{UUID}_0000001",
    f"{UUID}_000000001",
    f"{UUID}_0000000x",
    f"{UUID}_00000001\n",
    f"{UUID}_00000001-index",
    f"{UUID}-index\n",
    f"{UUID}-index-index",
    f"{UUID}-",
]


@for_each(
    ("key", "kind"),
    [
        (f"{UUID}-ledger-0", KeyKind.DATA),
        (f"{UUID}-ledger-12", KeyKind.DATA),
        (f"{UUID}-ledger-12-index", KeyKind.INDEX),
        (f"{UUID}-ledger-{MAX_INT64}", KeyKind.DATA),
        (f"{UUID}-ledger-{MAX_INT64}-index", KeyKind.INDEX),
        (UUID, KeyKind.STREAMING),
        (f"{UUID}-index", KeyKind.STREAMING),
        (f"{UUID}_00000001", KeyKind.GCS_PART),
        (f"{UUID}_99999999", KeyKind.GCS_PART),
    ],
)
def test_keys_of_pulsar_are_reported_apart(key, kind):
    assert kind_of_key(key) == kind
    assert (parse_ledger_key(key) is not None) == (kind in {KeyKind.DATA, KeyKind.INDEX})


@for_each("key", FOREIGN)
def test_everything_else_is_foreign(key):
    assert kind_of_key(key) == KeyKind.FOREIGN
    assert parse_ledger_key(key) is None


@quick
@given(uuids, ledger_ids)
def test_built_keys_parse_to_their_parts(text, ledger_id):
    key = LedgerKey(text, ledger_id, is_index=False)
    assert parse_ledger_key(key.data_key) == key
    assert parse_ledger_key(key.index_key) == LedgerKey(text, ledger_id, is_index=True)


@quick
@given(
    st.one_of(uuids, st.text("0123456789abcdefABCDEF-", max_size=40)),
    st.sampled_from(["-ledger-", "-ledger", "_", "-index", ""]),
    st.text("0123456789x\u0661 \n", max_size=21),
    st.sampled_from(["", "-index", "-index-index", "/"]),
)
def test_parsed_keys_are_built_back_to_the_same_text(start, middle, digits, end):
    key = start + middle + digits + end
    parsed = parse_ledger_key(key)
    if parsed is None:
        assert kind_of_key(key) not in {KeyKind.DATA, KeyKind.INDEX}
    else:
        assert key == (parsed.index_key if parsed.is_index else parsed.data_key)
