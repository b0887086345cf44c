"""SQL over topics: the rows are those of the same query over the whole table, and only what it needs is read."""

import io
import json
from collections.abc import Iterator
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ledgerfs
from ledgerfs import Bucket, ScanOptions, open_bucket
from ledgerfs.errors import CorruptMessageError, InvalidOptionError, NotFoundError
from ledgerfs.query.connection import SqlSession, Tables, quoted_texts
from tests.support.entries import frame, metadata
from tests.support.invoked import run
from tests.support.ledgers import CREATED_MS, offload, put_in_folder

PLAIN = "public/golden/plain"
TOPIC = "public/default/orders"


@pytest.fixture(scope="module")
def both(bucket: Bucket) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection with the topic as a view, and with its rows in memory as table ``whole``."""
    connection = ledgerfs.sql(bucket, PLAIN)
    connection.register("whole", bucket.topic(PLAIN).scan(values="auto", flatten=True).to_arrow())
    yield connection
    connection.close()


def made(folder: Path, ledgers: int = 20, *, broken: int | None = None) -> str:
    """Make a bucket of ledgers with 50 messages each, a second apart; the value of one entry may be damaged."""
    made = []
    for number in range(1, ledgers + 1):
        start = CREATED_MS + number * 50_000
        entries = [
            frame(metadata(sequence_id=i, publish_time_ms=start + i * 1000, key=b"k%d" % (i % 5)), b"v" * 2000)
            for i in range(50)
        ]
        if number == broken:
            entries[7] = entries[7][:-1] + b"x"
        made.append(offload(entries, number, uuid=number, created_ms=start + 50_000))
    folder.mkdir()
    return put_in_folder(folder, *made)


def rows_of(connection: duckdb.DuckDBPyConnection, query: str) -> list[str]:
    return sorted(map(repr, connection.sql(query).to_arrow_table().to_pylist()))


TIMES = st.datetimes(
    min_value=pa.scalar("2026-11-21T06:00:10").cast(pa.timestamp("us")).as_py(),
    max_value=pa.scalar("2026-11-21T06:01:00").cast(pa.timestamp("us")).as_py(),
)
NUMBERS = st.integers(-5, 150)
COMPARED = st.sampled_from(["=", "<", ">", "<=", ">=", "!="])
CONDITIONS = st.recursive(
    st.one_of(
        st.builds("publish_time {} '{}+00'".format, COMPARED, TIMES),
        st.builds("{} {} {}".format, st.sampled_from(["ledger_id", "entry_id", "batch_index"]), COMPARED, NUMBERS),
        st.builds("entry_id between {} and {}".format, NUMBERS, NUMBERS),
        st.builds("ledger_id in ({}, {}, 26)".format, NUMBERS, NUMBERS),
        st.builds("key {} 'k{}'".format, COMPARED, st.integers(0, 20)),
        st.sampled_from(
            [
                "key is null",
                "batch_index is not null",
                "key like 'k1%'",
                "octet_length(value) > 20",
                "event_time is null",
            ]
        ),
    ),
    lambda inner: st.one_of(
        st.builds("({} and {})".format, inner, inner),
        st.builds("({} or {})".format, inner, inner),
        st.builds("not ({})".format, inner),
    ),
    max_leaves=4,
)
SELECTED = st.sampled_from(
    ["*", "key", "count(*)", "ledger_id, max(publish_time) as last", "count(distinct key)", "entry_id, properties"]
)


@settings(max_examples=60, deadline=None)
@given(SELECTED, CONDITIONS)
def test_rows_are_those_of_the_whole_table(both: duckdb.DuckDBPyConnection, selected: str, condition: str) -> None:
    group = " group by ledger_id" if selected.startswith("ledger_id") else ""
    query = f"select {selected} from '{{}}' where {condition}{group}"
    assert rows_of(both, query.format(PLAIN)) == rows_of(both, query.format("whole"))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 150), st.integers(0, 150), st.sampled_from(["k3", "k11", None]))
def test_a_lazy_frame_has_the_rows_of_the_whole_table(bucket: Bucket, low: int, high: int, key: str | None) -> None:
    topic = bucket.topic(PLAIN)
    wanted = (pl.col("entry_id") >= low) & (pl.col("entry_id") < high)
    if key is not None:
        wanted &= pl.col("key") == key
    columns = ["ledger_id", "entry_id", "key"]
    whole = topic.scan(columns).to_polars()
    assert topic.lazy().filter(wanted).select(columns).collect().equals(whole.filter(wanted))


def bytes_used(url: str, query: str) -> int:
    bucket = open_bucket(url)
    connection = ledgerfs.sql(bucket, TOPIC)
    before = bucket.stats().bytes_used
    connection.sql(query).to_arrow_table()
    return bucket.stats().bytes_used - before


def test_only_ledgers_and_blocks_that_a_condition_allows_are_read(tmp_path: Path) -> None:
    url = made(tmp_path / "bucket")
    whole = bytes_used(url, f"select count(value) from '{TOPIC}'")
    start = pa.scalar(CREATED_MS + 5 * 50_000, pa.timestamp("ms", "UTC")).as_py().isoformat()
    for condition in ("ledger_id = 5", "ledger_id between 5 and 6 and key = 'k1'"):
        assert bytes_used(url, f"select count(value) from '{TOPIC}' where {condition}") < whole / 8
    # The clocks of brokers and producers may differ by ten minutes: twelve ledgers of 50 seconds.
    assert bytes_used(url, f"select count(value) from '{TOPIC}' where publish_time < '{start}'") < whole


def test_a_limit_ends_the_reading(tmp_path: Path) -> None:
    url = made(tmp_path / "bucket")
    whole = bytes_used(url, f"select count(value) from '{TOPIC}'")
    bucket = open_bucket(url)
    relation = ledgerfs.sql(bucket, TOPIC).sql(f"select value from '{TOPIC}'").limit(3)
    assert len(relation.to_arrow_table()) == 3
    assert bucket.stats().bytes_used < whole


def test_a_pattern_and_a_partitioned_topic_are_tables(bucket: Bucket) -> None:
    connection = ledgerfs.sql(bucket, "public/golden/*")
    counted = connection.sql("select topic, count(*) as n from 'public/golden/*' group by topic").to_arrow_table()
    # Encrypted messages, too, whose number is not a secret.
    expected = {one.name: bucket.topic(one.name).count() for one in bucket.topics()}
    assert dict(zip(counted["topic"].to_pylist(), counted["n"].to_pylist(), strict=True)) == expected
    partitioned = connection.sql("select count(*) as n from 'public/golden/partitioned'").to_arrow_table()
    assert partitioned["n"].to_pylist() == [bucket.topic("public/golden/partitioned").count()]
    with pytest.raises(NotFoundError, match="no topic of the bucket matches"):
        ledgerfs.sql(bucket, "public/nothing/*")


def test_quoted_texts_are_found() -> None:
    query = """select 'ä', "a/b/c" from 'public/golden/it''s' -- 'x/y/z'\nwhere key = 'ö'"""
    assert quoted_texts(query) == ["ä", "a/b/c", "public/golden/it's", "ö"]


def test_statements_reach_nothing_but_topics(bucket: Bucket, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a\n1\n")
    with SqlSession(Tables(bucket)) as session:
        for statement in (
            f"from '{tmp_path}/a.csv'",
            "from read_text('/etc/hostname')",
            f"copy (select 1) to '{tmp_path}/out.csv'",
            f"attach '{tmp_path}/x.db'",
            "install httpfs",
            "set enable_external_access = true",
        ):
            with pytest.raises(ledgerfs.errors.LedgerfsError) as refused:
                session.run(statement)
            assert refused.value.exit_code == 2
        assert not (tmp_path / "out.csv").exists()


def test_rows_are_printed_and_written(golden_url: str, bucket: Bucket, tmp_path: Path) -> None:
    statement = f"select ledger_id, entry_id, key from '{PLAIN}' where entry_id < 3 order by all"
    expected = bucket.topic(PLAIN).scan(["ledger_id", "entry_id", "key"]).to_arrow()
    expected = expected.filter(pa.compute.less(expected["entry_id"], 3)).sort_by([("ledger_id", "ascending")])
    csv = pa.csv.read_csv(
        io.BytesIO(run("sql", golden_url, statement, "--csv").stdout),
        convert_options=pa.csv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False),
    )
    assert csv.to_pylist() == expected.to_pylist()
    lines = run("sql", golden_url, statement, "--json").stdout.splitlines()
    assert [{"key": None, **json.loads(line)} for line in lines] == [
        {"key": row["key"], **row} for row in expected.to_pylist()
    ]
    file = str(tmp_path / "out.parquet")
    run("sql", golden_url, statement, "--parquet", file)
    assert pa.parquet.read_table(file).to_pylist() == expected.to_pylist()
    assert b"File exists" in run("sql", golden_url, statement, "--parquet", file, code=2).stderr
    assert pa.parquet.read_table(file).num_rows == expected.num_rows


def test_sums_and_types_without_a_form_are_printed(golden_url: str) -> None:
    statement = "select sum(3) as s, interval 90 minute as i, 170141183460469231731687303715884105727 as h"
    printed = run("sql", golden_url, statement, "--json").stdout
    assert json.loads(printed) == {"s": 3, "i": "01:30:00", "h": "170141183460469231731687303715884105727"}


def test_errors_name_the_cause(golden_url: str, tmp_path: Path) -> None:
    said = run("sql", golden_url, "from 'public/golden/plan'", code=2).stderr
    assert b"did you mean persistent://public/golden/plain" in said
    assert b'Referenced column "nope" not found' in run("sql", golden_url, f"select nope from '{PLAIN}'", code=2).stderr
    assert b"the message is encrypted" in run("sql", golden_url, "from 'public/golden/encrypted'", code=2).stderr
    url = made(tmp_path / "bucket", broken=3)
    statement = f"select count(value) as n from '{TOPIC}'"
    failed = run("sql", url, statement, "--json", code=1)
    assert b"entry 3:7" in failed.stderr
    assert failed.stdout == b""
    skipped = run("sql", url, statement, "--json", "--on-corrupt", "skip", code=1)
    assert json.loads(skipped.stdout) == {"n": 999}
    assert b"left out 3:7" in skipped.stderr
    with pytest.raises(duckdb.Error, match="entry 3:7"):
        ledgerfs.sql(open_bucket(url), TOPIC).sql(statement).to_arrow_table()
    with pytest.raises(CorruptMessageError, match="entry 3:7"):
        open_bucket(url).topic(TOPIC).scan(["value"]).to_arrow()


def test_every_statement_of_a_text_is_run(golden_url: str) -> None:
    text = f"select 1 as a; select 2 as b; select count(*) as n from '{PLAIN}'"
    rows = [json.loads(line) for line in run("sql", golden_url, text, "--json").stdout.splitlines()]
    assert rows == [{"a": 1}, {"b": 2}, {"n": 600}]
    assert b"exactly one statement" in run("sql", golden_url, text, "--parquet", "never.parquet", code=2).stderr


def test_partitions_beside_a_topic_of_their_name_are_in_a_pattern(tmp_path: Path) -> None:
    entries = [frame(metadata(sequence_id=i, publish_time_ms=CREATED_MS + i), b"v") for i in range(3)]
    names = ("orders", "orders-partition-0", "payments-partition-0", "payments-partition-1")
    made = [
        offload(entries, number, uuid=number, name=f"public/default/persistent/{name}")
        for number, name in enumerate(names, 1)
    ]
    bucket = open_bucket(put_in_folder(tmp_path, *made))
    connection = ledgerfs.sql(bucket, "public/default/*")
    counted = connection.sql("select topic, count(*) as n from 'public/default/*' group by topic").to_arrow_table()
    assert sorted(counted["topic"].to_pylist()) == [f"persistent://public/default/{name}" for name in names]
    assert counted["n"].to_pylist() == [3] * 4


def of_topics(folder: Path, **messages: int) -> str:
    """Make a bucket of topics with so many messages, by name."""
    folder.mkdir()
    made = []
    for number, (name, count) in enumerate(messages.items(), 1):
        entries = [frame(metadata(sequence_id=i, publish_time_ms=CREATED_MS + i), b"v") for i in range(count)]
        made.append(offload(entries, number, uuid=number, name=f"public/default/persistent/{name}"))
    return put_in_folder(folder, *made)


def test_columns_of_one_name_are_refused(golden_url: str) -> None:
    join = f"select a.entry_id, b.entry_id from '{PLAIN}' a join '{PLAIN}' b on a.entry_id = b.entry_id + 1"
    for statement in (join, "select 1 as a, 2 as A"):
        assert b"give one of them another name with AS" in run("sql", golden_url, statement, code=2).stderr


def test_names_that_differ_in_case_or_look_like_patterns_are_the_topics(tmp_path: Path) -> None:
    url = of_topics(tmp_path / "bucket", **{"orders": 5, "Orders": 3, "x%5B1%5D": 2, "x1": 7})
    both = "select count(*) as n from 'public/default/orders', 'public/default/Orders'"
    assert b"only in case" in run("sql", url, both, code=2).stderr
    for name, count in (("orders", 5), ("Orders", 3), ("x[1]", 2), ("x1", 7), ("x*", 9)):
        printed = run("sql", url, f"select count(*) as n from 'public/default/{name}'", "--json").stdout
        assert json.loads(printed) == {"n": count}
    with pytest.raises(InvalidOptionError, match="only in case"):
        ledgerfs.sql(open_bucket(url))


def test_a_limit_of_options_is_refused_where_conditions_are_pushed(bucket: Bucket) -> None:
    with pytest.raises(InvalidOptionError, match="use the limit of a query"):
        ledgerfs.sql(bucket, PLAIN, ScanOptions(limit=5))
    first = bucket.topic(PLAIN).lazy(limit=2)
    assert first.filter(pl.col("entry_id") >= 3).collect().height == 0


def test_conditions_of_a_lazy_frame_have_the_meaning_of_polars(bucket: Bucket) -> None:
    topic = bucket.topic(PLAIN)
    for condition in (~pl.col("key").is_in(["k3"]), pl.col("key").is_null(), pl.col("event_time").is_not_null()):
        assert topic.lazy().filter(condition).collect().equals(topic.lazy().collect().filter(condition))
    assert topic.lazy().select(pl.len()).collect().item() == topic.count()


def test_key_value_topics_are_tables(typed: Bucket) -> None:
    names = [one.name for one in typed.topics() if "/kv-" in one.name]
    assert names
    for name in names:
        short = name.removeprefix("persistent://")
        found = ledgerfs.sql(typed, short).sql(f"select * from '{short}'").to_arrow_table()
        assert found.num_rows == typed.topic(name).count()
