from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs.formats.pulsar_blob.user_metadata import OffloadUserMetadata, build_user_metadata, parse_user_metadata
from tests.support.each import for_each

VERSION_KEY = "s3managedledgeroffloaderformatversion"
STORED = {
    "s3managedledgeroffloaderformatversion": "1",
    "s3managedledgeroffloadersoftwareversion": "4.0.7",
    "s3managedledgeroffloadersoftwaregitsha": "abcdef",
    "pulsarclustername": "standalone",
    "role": "index",
    "managedledgername": "public/default/persistent/orders",
}
PARSED = OffloadUserMetadata("1", "4.0.7", "abcdef", "standalone", "index", "public/default/persistent/orders")

values = st.none() | st.text(max_size=5)


@for_each("spell", [str.lower, str.upper, str.title, str.capitalize, str.swapcase])
def test_case_of_keys_does_not_matter(spell):
    assert parse_user_metadata({spell(key): value for key, value in STORED.items()}) == PARSED
    assert build_user_metadata(PARSED) == STORED


def test_missing_keys_are_none_and_foreign_keys_are_ignored():
    assert parse_user_metadata({"x": "1", "format-version": "1"}) == OffloadUserMetadata(None)
    assert parse_user_metadata({"managedledgername": "", "Role": "Data"}) == OffloadUserMetadata(None, role="Data")


@for_each("key", STORED)
def test_each_missing_key_is_none_alone(key):
    parsed = parse_user_metadata({other: value for other, value in STORED.items() if other != key})
    assert build_user_metadata(parsed) == {other: value for other, value in STORED.items() if other != key}


@for_each("version", ["", "0", "2", "01", " 1", "1 ", "-12345", "aws-sdk-s3-1"])
def test_broker_refuses_other_versions_and_is_reported_which(version):
    assert PARSED.broker_refuses is None
    assert VERSION_KEY in OffloadUserMetadata(None, role="data").broker_refuses
    refused = parse_user_metadata(STORED | {VERSION_KEY: version}).broker_refuses
    assert VERSION_KEY in refused
    assert repr(version) in refused


@settings(deadline=None, max_examples=50)
@given(st.builds(OffloadUserMetadata, values, values, values, values, values, st.none() | st.text(min_size=1)))
def test_any_metadata_round_trips(metadata):
    assert parse_user_metadata(build_user_metadata(metadata)) == metadata
