import errno
from itertools import combinations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ledgerfs.errors import InvalidNameError
from ledgerfs.formats.topic_names import (
    ManagedLedgerName,
    decode_topic,
    directory_of,
    encode_topic,
    managed_ledger_in,
    managed_ledger_of,
    parse_managed_ledger_name,
    topic_of,
)
from tests.support.each import for_each

JAVA_KEEPS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-*_")

quick = settings(deadline=None, max_examples=120)
utf8 = st.characters(codec="utf-8")
any_name = st.text(max_size=30)
entities = st.text("aZ09-=:._", min_size=1, max_size=5)
local_names = st.text(utf8, min_size=1, max_size=10)
plain_parts = st.sampled_from(
    ["", ".", "..", "\0", "a", "b", "a b", "a+b", "_other", "_unknown", "persistent", "~", "é", "\ud800", "%", "*"]
)
escaped_parts = st.sampled_from(
    ["%2E", "%2e", "%2E%2E", "%252E", "%00", "a%2Fb", "a%2fb", "%61", "a%20b", "%7E", "%C3%A9", "%c3%a9", "%FF", "%2A"]
)
tricky_parts = st.one_of(plain_parts, escaped_parts)
tricky_names = st.one_of(
    st.lists(tricky_parts, max_size=6).map("/".join),
    st.tuples(tricky_parts, tricky_parts, st.just("persistent"), tricky_parts).map("/".join),
    st.tuples(tricky_parts, tricky_parts, tricky_parts, st.just("persistent"), tricky_parts).map("/".join),
    st.text("./%2EFa\0", max_size=6),
    any_name,
)


def java_url_encode(text):
    out = []
    for character in text:
        if character in JAVA_KEEPS:
            out.append(character)
        elif character == " ":
            out.append("+")
        else:
            out.extend(f"%{byte:02X}" for byte in character.encode())
    return "".join(out)


def assert_safe(directory):
    assert directory
    for component in directory:
        assert component not in {"", ".", ".."}
        assert "/" not in component
        assert "\0" not in component


@for_each(
    ("local", "encoded"),
    [
        ("orders", "orders"),
        ("a b", "a+b"),
        ("a+b", "a%2Bb"),
        ("*-_.", "*-_."),
        ("~", "%7E"),
        ("a/b", "a%2Fb"),
        ("!'()@:,;=&$#?[]\\", "%21%27%28%29%40%3A%2C%3B%3D%26%24%23%3F%5B%5D%5C"),
        ("\u65e5\u672c", "%E6%97%A5%E6%9C%AC"),
        ("\U0001f600", "%F0%9F%98%80"),
        ("\0\n\x7f", "%00%0A%7F"),
    ],
)
def test_topics_are_encoded_as_by_java(local, encoded):
    assert encode_topic(local) == encoded
    assert decode_topic(encoded) == local


@quick
@given(local_names)
def test_encoding_is_that_of_java_for_any_text(local):
    assert encode_topic(local) == java_url_encode(local)
    assert decode_topic(encode_topic(local)) == local


def test_bytes_that_are_not_utf8_decode_to_replacement_characters():
    assert decode_topic("a%FFb") == "a\N{REPLACEMENT CHARACTER}b"


@for_each(
    ("name", "parsed", "topic", "directory"),
    [
        (
            "public/default/persistent/orders",
            ManagedLedgerName("public", None, "default", "orders"),
            "persistent://public/default/orders",
            ("public", "default", "orders"),
        ),
        (
            "public/default/persistent/my+orders%3A%C3%BC",
            ManagedLedgerName("public", None, "default", "my+orders%3A%C3%BC"),
            "persistent://public/default/my orders:ü",
            ("public", "default", "my+orders%3A%C3%BC"),
        ),
        (
            "prop/us-west/ns/persistent/orders",
            ManagedLedgerName("prop", "us-west", "ns", "orders"),
            "persistent://prop/us-west/ns/orders",
            ("prop", "us-west%2Fns", "orders"),
        ),
        (
            "a=b/c:d/persistent/e",
            ManagedLedgerName("a=b", None, "c:d", "e"),
            "persistent://a=b/c:d/e",
            ("a=b", "c:d", "e"),
        ),
        (
            "../../persistent/..",
            ManagedLedgerName("..", None, "..", ".."),
            "persistent://../../..",
            ("%2E%2E", "%2E%2E", "%2E%2E"),
        ),
        ("./././persistent/.", ManagedLedgerName(".", ".", ".", "."), "persistent://./././.", ("%2E", ".%2F.", "%2E")),
    ],
)
def test_names_of_topics_are_spelled_three_ways(name, parsed, topic, directory):
    assert parse_managed_ledger_name(name) == parsed
    assert topic_of(name) == topic
    assert directory_of(name) == directory
    assert managed_ledger_of(name) == name


@for_each(
    ("name", "quoted"),
    [
        ("orders", "orders"),
        ("a/b", "a%2Fb"),
        ("public/default/non-persistent/orders", "public%2Fdefault%2Fnon-persistent%2Forders"),
        ("/default/persistent/orders", "%2Fdefault%2Fpersistent%2Forders"),
        ("public//persistent/orders", "public%2F%2Fpersistent%2Forders"),
        ("a b/c/persistent/d", "a%20b%2Fc%2Fpersistent%2Fd"),
        ("a/b%2Fc/persistent/d", "a%2Fb%252Fc%2Fpersistent%2Fd"),
        ("a/b/persistent/c%2Fd", "a%2Fb%2Fpersistent%2Fc%252Fd"),
        ("_other/b/persistent/c", "_other%2Fb%2Fpersistent%2Fc"),
        ("a/b/persistent/c\n", "a%2Fb%2Fpersistent%2Fc%0A"),
        ("a\0b", "a%00b"),
        (".", "%2E"),
        ("..", "%2E%2E"),
        ("../..", "..%2F.."),
        ("_unknown", "_unknown"),
    ],
)
def test_names_of_no_topic_are_kept_whole_under_other(name, quoted):
    assert parse_managed_ledger_name(name) is None
    assert directory_of(name) == ("_other", quoted)
    assert topic_of(name) == name


@for_each(
    "encoded",
    ["a%2fb", "%2E", "%2E%2E", "%61", "a%20b", "%7e", "%2A", "%C3%bc", "%FF", "%", "a%", "%4", "%zz", "%ED%A0%80"],
)
def test_topics_that_java_would_encode_otherwise_are_no_topics(encoded):
    name = f"a/b/persistent/{encoded}"
    assert encode_topic(decode_topic(encoded)) != encoded
    assert parse_managed_ledger_name(name) is None
    assert directory_of(name)[0] == "_other"
    assert topic_of(name) == name


def test_no_name_is_shown_as_unknown():
    assert topic_of(None) == "_unknown"
    assert directory_of(None) == ("_unknown",)


@quick
@given(tricky_names)
@example("")
@example("\0")
@example("/")
@example("//persistent/")
@example("./../persistent/..")
def test_no_component_is_unsafe(name):
    assert_safe(directory_of(name))


@settings(deadline=None, max_examples=80)
@given(st.lists(tricky_names, min_size=2, max_size=12, unique=True))
def test_no_two_names_share_a_directory_or_lie_in_each_other(names):
    directories = [("_unknown",), *map(directory_of, names)]
    for one, other in combinations(directories, 2):
        shorter = min(len(one), len(other))
        assert one[:shorter] != other[:shorter]


@for_each(
    ("topic", "name"),
    [
        ("persistent://public/default/orders", "public/default/persistent/orders"),
        ("persistent://public/default/my orders", "public/default/persistent/my+orders"),
        ("persistent://public/default/ü~", "public/default/persistent/%C3%BC%7E"),
        ("persistent://public/default/100%25", "public/default/persistent/100%2525"),
        ("persistent://prop/us-west/ns/orders", "prop/us-west/ns/persistent/orders"),
        ("persistent://prop/us-west/ns/a/b", "prop/us-west/ns/persistent/a%2Fb"),
        ("a/b/c", "a/b/persistent/c"),
        ("c", "public/default/persistent/c"),
        ("c-partition-0", "public/default/persistent/c-partition-0"),
        ("a/b/persistent/c+d", "a/b/persistent/c+d"),
        ("prop/us-west/ns/persistent/a%2Fb", "prop/us-west/ns/persistent/a%2Fb"),
    ],
)
def test_topics_and_their_short_forms_name_a_managed_ledger(topic, name):
    assert managed_ledger_of(topic) == name


@for_each(
    "topic",
    [
        "",
        "a/b",
        "a//c",
        "persistent://",
        "persistent://a/b",
        "persistent://a//c",
        "://a/b/c",
        "non-persistent://a/b/c",
        "Persistent://a/b/c",
        "https://a/b/c",
        "persistent://a b/c/d",
        "persistent://ü/b/c",
        "persistent://a/b\n/c",
        "a\0/b/c",
    ],
)
def test_names_that_pulsar_would_refuse_are_invalid(topic):
    with pytest.raises(InvalidNameError) as caught:
        managed_ledger_of(topic)
    assert caught.value.key == (topic or "")
    assert caught.value.errno == errno.EINVAL


@for_each("topic", ["\udcff", "a/b/\udcff", "persistent://a/b/\udcff", "persistent://\udcff/b/c"])
def test_argument_that_was_not_utf8_is_invalid(topic):
    with pytest.raises(InvalidNameError):
        managed_ledger_of(topic)


@quick
@given(st.one_of(tricky_names, tricky_names.map("persistent://{}".format)))
def test_any_text_names_a_canonical_managed_ledger_or_is_invalid(topic):
    try:
        name = managed_ledger_of(topic)
    except InvalidNameError:
        return
    *entities_, domain, encoded = name.split("/")
    assert len(entities_) in {2, 3}
    assert domain == "persistent"
    assert encode_topic(decode_topic(encoded)) == encoded
    assert (parse_managed_ledger_name(name) is None) == (entities_[0] in {"_other", "_unknown"})


@for_each(
    ("directory", "name"),
    [
        (("a", "b", "c"), "a/b/persistent/c"),
        (("a", "b", "c-partition-3"), "a/b/persistent/c-partition-3"),
        (("a", "b%2Fc", "d"), "a/b/c/persistent/d"),
        (("a", "b%2Fc", "d%2Fe"), "a/b/c/persistent/d%2Fe"),
        (("a", ".%2F..", "d"), "a/./../persistent/d"),
        (("%2E", "%2E%2E", "%2E"), "./../persistent/."),
        (("a", "b", "%2E%2E"), "a/b/persistent/.."),
        (("a", "b", "x+y%7E*"), "a/b/persistent/x+y%7E*"),
        (("a", "b", "_other"), "a/b/persistent/_other"),
        (("a", "_unknown", "c"), "a/_unknown/persistent/c"),
    ],
)
def test_directories_of_topics_name_their_managed_ledger(directory, name):
    assert managed_ledger_in(directory) == name
    assert directory_of(name) == directory


@for_each(
    "directory",
    [
        (),
        ("a", "b"),
        ("a", "b", "c", "d"),
        ("_other", "a%2Fb"),
        ("_unknown",),
        ("a", "..", "c"),
        ("a", "b%2Fc%2Fd", "e"),
        ("a", "b", "x y"),
        ("a", "b", "\udcff"),
        ("a", "b", "c\n"),
    ],
)
def test_directories_of_no_topic_are_invalid(directory):
    with pytest.raises(InvalidNameError) as caught:
        managed_ledger_in(directory)
    assert caught.value.errno == errno.EINVAL
    assert caught.value.key == "/".join(directory)


@for_each(("encoded", "meant"), [("x y", "a/b/x+y"), ("~", "a/b/%7E"), ("ü", "a/b/%C3%BC"), ("..", "a/b/%2E%2E")])
def test_an_invalid_directory_is_reported_how_it_is_written(encoded, meant):
    with pytest.raises(InvalidNameError) as caught:
        managed_ledger_in(("a", "b", encoded))
    assert caught.value.reason.endswith(f"; did you mean {meant}?")
    assert directory_of(managed_ledger_in(tuple(meant.split("/")))) == tuple(meant.split("/"))


@quick
@given(entities, st.none() | entities, entities, local_names)
def test_all_spellings_of_any_topic_lead_back_to_it(tenant, cluster, namespace, local):
    if cluster is None:
        parts, local = [tenant, namespace], local.replace("/", "-")
        assert (
            managed_ledger_of(f"{tenant}/{namespace}/{local}")
            == f"{tenant}/{namespace}/persistent/{encode_topic(local)}"
        )
    else:
        parts = [tenant, cluster, namespace]
    name = "/".join([*parts, "persistent", encode_topic(local)])
    assert topic_of(name) == f"persistent://{'/'.join(parts)}/{local}"
    assert managed_ledger_of(topic_of(name)) == name
    if parse_managed_ledger_name(name) is not None:
        assert managed_ledger_in(directory_of(name)) == name


@quick
@given(
    st.lists(tricky_parts | entities | st.tuples(entities, entities).map("%2F".join) | any_name, min_size=2, max_size=4)
)
def test_any_directory_is_that_of_its_managed_ledger_or_invalid(directory):
    try:
        name = managed_ledger_in(directory)
    except InvalidNameError:
        return
    assert parse_managed_ledger_name(name) is not None
    assert directory_of(name) == tuple(directory)
