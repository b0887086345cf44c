"""What shells and notebooks show of our values: short, without internals or credentials, escaped, and without a request."""

import copy
import json
import pickle
import re
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd

import ledgerfs
from ledgerfs.bucket.bucket import _FOR_OTHER_ROOMS as _HIDDEN_OF_BUCKET
from ledgerfs.display import MOST_ROWS, html_table
from ledgerfs.layouts.pulsar_blob.reader import _FOR_OTHER_ROOMS as _HIDDEN_OF_READER
from ledgerfs.layouts.pulsar_blob.reader import PulsarLedgerReader
from tests.support.ledgers import offload, put_in_folder

HOSTILE = "a/b/persistent/%3Cscript%3E%26%22%0A%1B%5B31m"
ROOT = Path(__file__).parent.parent


class Tables(HTMLParser):
    """Cells of a table, by row."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.rows: list[list[str]] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not attrs
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in {"td", "th"}:
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        if self.rows:
            self.rows[-1][-1] += data


def test_every_repr_is_a_short_line(bucket: ledgerfs.Bucket, golden_url: str) -> None:
    topic = bucket.topic("public/golden/plain")
    ref = topic.ledgers[0].ref
    (info,) = [one for one in bucket.topics() if one.name == topic.name]
    name, shown = "persistent://public/golden/plain", f"<bucket {golden_url}>"
    message = topic.message("26:3")
    reported = f"<message 26:3:-1 of {name}, published 2026-11-21T06:00:13.186+00:00, key 'k3': {len(message.value or b''):,} bytes>"
    assert repr(bucket) == shown
    assert repr(topic) == f"<topic {name} of {shown}>"
    assert repr(topic.ledgers[0]) == f"<ledger 26 of {name}: 200 entries, 51,392 bytes>"
    assert repr(info) == f"<{name}: 3 ledgers, 600 entries, 149,970 bytes>"
    assert repr(bucket.catalog) == "<catalog: 104 ledgers, 35 topics>"
    assert repr(ref) == f"<ledger 26 of {name}, copy 0, {ref.uuid}: 200 entries, 51,392 bytes>"
    assert repr(topic.scan(["key", "value"])) == f"<scan of {name}: 3 ledgers, columns key, value>"
    assert repr(message) == reported


def test_no_repr_is_long_or_drives_a_terminal(tmp_path: Path) -> None:
    bucket = ledgerfs.open_bucket(put_in_folder(tmp_path, offload([b"x"], name=HOSTILE)))
    (topic,) = (bucket.topic(one.managed_ledger or "") for one in bucket.topics())
    ledger = topic.ledgers[0]
    for value in (bucket, topic, ledger, ledger.ref, bucket.catalog, bucket.topics(), topic.scan()):
        assert repr(value).isprintable()
        assert len(repr(value)) < 600


def test_no_repr_has_credentials() -> None:
    for url, options in (
        ("http://user:password@127.0.0.1:1/x", {}),
        ("s3://tier", {"key": "user", "secret": "password", "endpoint_url": "http://127.0.0.1:1"}),
    ):
        bucket = ledgerfs.open_bucket(url, options)
        topic = ledgerfs.Topic(bucket, "a/b/persistent/c")
        for text in (repr(bucket), repr(topic), bucket._repr_html_(), topic._repr_html_()):
            assert "password" not in text


def test_dir_names_what_is_documented_and_no_internals(bucket: ledgerfs.Bucket) -> None:
    text = (ROOT / "docs" / "guides" / "python.md").read_text()
    topic = bucket.topic("public/golden/plain")
    # Python 3.11.2 takes no question about the second.
    unasked = {"__abstractmethods__", "__weakref__"}
    for subject, value in (("bucket", bucket), ("topic", topic), ("ledger", topic.ledgers[0]), ("scan", topic.scan())):
        names = dir(value)
        assert [name for name in names if name not in unasked and not hasattr(value, name)] == []
        assert [name for name in names if re.match(r"_[^_]", name)] in ([], ["_repr_html_"])
        assert set(re.findall(rf"`{subject}\.(\w+)", text)) <= set(names)
        assert "__class__" in names
    assert not {"raw_store", "attached", "store", "uncached_reader"} & set(dir(bucket))
    assert isinstance(topic.ledgers[0], PulsarLedgerReader)
    for cls, hidden in ((type(bucket), _HIDDEN_OF_BUCKET), (PulsarLedgerReader, _HIDDEN_OF_READER)):
        assert [name for name in hidden if not hasattr(cls, name)] == []


def test_a_notebook_shows_a_bucket_without_listing_it(golden_url: str) -> None:
    bucket = ledgerfs.open_bucket(golden_url)
    assert golden_url in bucket._repr_html_()
    assert bucket.stats().requests == 0
    assert Tables(bucket._repr_html_()).rows == [[]]
    bucket.load_catalog()
    requests = bucket.stats().requests
    bucket.expire()
    rows = Tables(bucket._repr_html_()).rows
    assert rows[0] == ["topic", "ledgers", "entries", "bytes", "created", "uploaded", "missing"]
    assert (len(rows), rows[-1]) == (1 + MOST_ROWS + 1, ["…"])
    topic = bucket.topic("public/golden/plain")
    bucket.expire()
    listed = bucket.stats().requests
    assert listed >= requests
    rows = Tables(topic._repr_html_()).rows
    assert [row[1:4] for row in rows] == [
        ["ledger", "entries", "bytes"], ["26", "200", "51,392"], ["84", "200", "49,554"], ["123", "200", "49,024"]
    ]  # fmt: skip
    assert bucket.stats().requests == listed


def test_a_partitioned_topic_is_shown_as_one(tmp_path: Path) -> None:
    made = [offload([b"x"], number, uuid=number, name=f"a/b/persistent/t-partition-{number}") for number in range(3)]
    url = put_in_folder(tmp_path, *made)
    topic = ledgerfs.open_bucket(url).topic("a/b/t")
    assert repr(topic) == f"<partitioned topic persistent://a/b/t of <bucket {url}>>"
    rows = Tables(topic._repr_html_()).rows
    assert [row[:2] for row in rows[1:]] == [
        [f"persistent://a/b/t-partition-{number}", str(number)] for number in range(3)
    ]
    scan = topic.scan(["key"])
    assert repr(scan) == "<scan of persistent://a/b/t: 3 partitions, columns key>"
    assert Tables(scan._repr_html_()).rows == [["column", "type"], ["key", "string"]]
    assert not [
        name for value in (topic, scan) for name in dir(value) if re.match(r"_[^_]", name) and name != "_repr_html_"
    ]


def test_a_notebook_shows_topics_and_scans(bucket: ledgerfs.Bucket) -> None:
    topics = bucket.topics()
    assert "35 topics" in topics._repr_html_()  # type: ignore[attr-defined]
    scan = bucket.topic("public/golden/plain").scan(["key", "publish_time"])
    assert Tables(scan._repr_html_()).rows[1:] == [["key", "string"], ["publish_time", str(scan.schema.field(1).type)]]


def test_what_the_bucket_says_is_no_html(tmp_path: Path) -> None:
    bucket = ledgerfs.open_bucket(put_in_folder(tmp_path, offload([b"x"], name=HOSTILE)))
    (topic,) = (bucket.topic(one.managed_ledger or "") for one in bucket.topics())
    for html in (bucket._repr_html_(), topic._repr_html_(), bucket.topics()._repr_html_(), topic.scan()._repr_html_()):  # type: ignore[attr-defined]
        assert Tables(html).tags <= {"table", "caption", "tr", "th", "td"}
        assert "<script>" not in html
        assert "&lt;script&gt;&amp;&quot;\\n\\x1b[31m" in html


def test_topics_are_a_list_in_every_way(bucket: ledgerfs.Bucket) -> None:
    topics = bucket.topics()
    assert isinstance(topics, list)
    for other in (pickle.loads(pickle.dumps(topics)), copy.copy(topics), copy.deepcopy(topics), list(topics)):
        assert other == topics
    assert type(pickle.loads(pickle.dumps(topics))) is type(topics)
    assert topics[:2] + topics[2:] == topics
    assert topics[0] in topics
    assert len(pd.DataFrame(topics)) == 35
    assert len(json.dumps([one.name for one in topics])) > 35


def test_a_table_says_that_there_is_more_only_where_there_is() -> None:
    for count in (0, MOST_ROWS - 1, MOST_ROWS, MOST_ROWS + 1, 1000):
        rows = Tables(html_table("x", ("n",), ([number] for number in range(count)))).rows
        assert len(rows) == 1 + min(count, MOST_ROWS) + (count > MOST_ROWS)
        assert (["…"] in rows) is (count > MOST_ROWS)
