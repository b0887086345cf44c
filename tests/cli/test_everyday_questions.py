"""``tail``, ``find``, ``message`` and ``ledgers``: the rows of a scan, printed, and errors with a remedy."""

import json
import re
from pathlib import Path

import pytest

from ledgerfs import Bucket
from tests.support.entries import frame, metadata
from tests.support.invoked import output, run
from tests.support.ledgers import offload, put_in_folder

PLAIN = "public/golden/plain"
BATCHED = "public/golden/batched-lz4"


def lines(*arguments: str, code: int = 0) -> list[dict[str, object]]:
    return [json.loads(line) for line in run(*arguments, code=code).stdout.splitlines()]


def keys_of(bucket: Bucket, **options: object) -> list[tuple[int, int]]:
    table = bucket.topic(PLAIN).scan(["ledger_id", "entry_id"], **options).to_arrow()
    return list(zip(table["ledger_id"].to_pylist(), table["entry_id"].to_pylist(), strict=True))


def places(found: list[dict[str, object]]) -> list[tuple[object, object]]:
    return [(one["ledger_id"], one["entry_id"]) for one in found]


def test_tail_prints_the_last_messages(golden_url: str, bucket: Bucket) -> None:
    assert places(lines("tail", "-n", "3", golden_url, PLAIN, "--json")) == keys_of(bucket)[-3:]
    assert places(lines("tail", golden_url, PLAIN, "--json", "--key", "k3")) == keys_of(bucket, key="k3")[-10:]
    assert output("tail", "-n", "1", golden_url, PLAIN).startswith("123:199  2026-11-21T06:00:35.724Z\n")


def test_find_prints_the_messages_that_meet_all_conditions(golden_url: str, bucket: Bucket) -> None:
    rows = bucket.topic(PLAIN).scan(["ledger_id", "entry_id", "key", "value", "properties"]).to_arrow().to_pylist()
    hits = [one for one in rows if b"lazy ledger" in (one["value"] or b"")]
    assert 0 < len(hits) < len(rows)
    assert places(lines("find", golden_url, PLAIN, "--text", "lazy ledger", "--json")) == places(hits)
    assert places(lines("find", golden_url, PLAIN, "--regex", "la[a-z]+y? ledger", "--json")) == places(hits)
    named = [one for one in rows if ("n", "48") in (one["properties"] or [])]
    assert named
    assert places(lines("find", golden_url, PLAIN, "--property", "n=48", "--json")) == places(named)
    both = [one for one in hits if one["key"] == "k3"]
    found = run("find", golden_url, PLAIN, "--text", "lazy ledger", "--key", "k3", "--json")
    assert places([json.loads(line) for line in found.stdout.splitlines()]) == places(both)
    assert re.search(rf"{len(both)} hits; read .* requests\n".encode(), found.stderr)
    first = run("find", golden_url, PLAIN, "--text", "lazy ledger", "--json", "-n", "1")
    assert places([json.loads(first.stdout)]) == places(hits[:1])
    assert b"-n 1 stopped the search" in first.stderr
    assert b"--regex" in run("find", golden_url, PLAIN, "--regex", "(?=a)b", code=2).stderr
    assert b"0 hits" in run("find", golden_url, PLAIN, "--text", "nothing of this").stderr


def test_find_around_a_time(golden_url: str, bucket: Bucket) -> None:
    every = places(lines("find", golden_url, PLAIN, "--around", "2026-11-21 06:05", "--json"))
    assert every == keys_of(bucket)
    assert lines("find", golden_url, PLAIN, "--around", "2026-11-21 07:00", "--json") == []
    said = run("find", golden_url, PLAIN, "--around", "2026-11-21 06:05", "--start", "-1h", code=2).stderr
    assert b"--around is a time instead of --start and --end" in said


def test_find_by_a_field_of_typed_values(typed: Bucket) -> None:
    topic = "public/typed/py-json"
    rows = typed.topic(topic).scan(["entry_id", "batch_index", "value"], values="typed").to_arrow().to_pylist()
    age = next(one["value"]["age"] for one in rows if one["value"])
    wanted = [(one["entry_id"], one["batch_index"]) for one in rows if one["value"] and one["value"]["age"] == age]
    found = lines("find", typed.url, topic, "--value-path", f"age={age}", "--json", "--columns", "entry_id,batch_index")
    assert [(one["entry_id"], one.get("batch_index")) for one in found] == wanted
    said = run("find", typed.url, topic, "--value-path", "age=1", "--text", "a", code=2).stderr
    assert b"--text and --regex search bytes" in said
    assert b"--value-path" not in run("find", typed.url, topic, "--value-path", "nope=1", code=2).stdout


def test_message_prints_one_message_or_a_whole_batch(golden_url: str, bucket: Bucket) -> None:
    rows = bucket.topic(BATCHED).scan(["ledger_id", "entry_id", "batch_index", "value"]).to_arrow().to_pylist()
    ledger, entry = rows[0]["ledger_id"], rows[0]["entry_id"]
    batch = [one for one in rows if (one["ledger_id"], one["entry_id"]) == (ledger, entry)]
    assert len(batch) > 1
    (one,) = lines("message", golden_url, BATCHED, f"{ledger}:{entry}:1", "--json")
    assert one["batch_index"] == 1
    raw = run("message", golden_url, BATCHED, f"{ledger}:{entry}:1", "--raw").stdout
    assert raw == batch[1]["value"]
    every = lines("message", golden_url, BATCHED, f"{ledger}:{entry}", "--json")
    assert [one["batch_index"] for one in every] == [one["batch_index"] for one in batch]
    said = run("message", golden_url, BATCHED, f"{ledger}:{entry}", "--raw", code=2).stderr
    assert f"batch of {len(batch)} messages".encode() in said
    assert b"no such ledger" in run("message", golden_url, PLAIN, "9999:1", code=2).stderr


def test_ledgers_are_those_of_the_catalog(golden_url: str, bucket: Bucket) -> None:
    listed = json.loads(run("ledgers", golden_url, "--json").stdout)
    assert len(listed) == sum(one.ledgers for one in bucket.topics())
    assert {one["topic"] for one in listed} == {one.name for one in bucket.topics()}
    own = json.loads(run("ledgers", golden_url, PLAIN, "--json", "--times", "--sort", "bytes").stdout)
    times = bucket.topic(PLAIN).scan(["ledger_id", "publish_time"]).to_arrow().group_by("ledger_id")
    by_id = {row["ledger_id"]: row for row in times.aggregate([("publish_time", "min_max")]).to_pylist()}
    assert [one["bytes"] for one in own] == sorted(one["bytes"] for one in own)
    for one in own:
        limits = by_id[one["ledger"]]["publish_time_min_max"]
        first, last = (f"{limits[name]:%Y-%m-%dT%H:%M:%S}" for name in ("min", "max"))
        assert (one["first_publish_time"][:19], one["last_publish_time"][:19]) == (first, last)
    assert json.loads(run("ledgers", golden_url, "--json", "--older-than", "5200w").stdout) == []
    assert output("ledgers", golden_url, PLAIN).splitlines()[-1].startswith("total of 3 ledgers")


@pytest.mark.parametrize("age", ["soon", "30"])
def test_an_invalid_age_is_refused(golden_url: str, age: str) -> None:
    assert run("ledgers", golden_url, "--older-than", age, code=2).stderr


def test_cat_writes_folders_and_patterns_by_ledger_id(golden_url: str) -> None:
    folder = "jsonl/public/golden/plain"
    whole = run("cat", golden_url, folder).stdout
    one_by_one = run("cat", golden_url, *(f"{folder}/{ledger}.jsonl" for ledger in (26, 84, 123))).stdout
    assert whole == one_by_one
    assert run("cat", golden_url, "jsonl/*/golden/pl[a-b]in/*").stdout == whole
    both = run("cat", golden_url, "jsonl/public/golden/plain/26.jsonl", "jsonl/public/golden/no*", code=2)
    assert both.stdout == b""
    assert b"no such file" in both.stderr


def test_cat_joins_no_tables_and_no_copies(golden_url: str, tmp_path: Path) -> None:
    assert b"cannot be joined" in run("cat", golden_url, "parquet/public/golden/plain", code=2).stderr
    entries = [frame(metadata(sequence_id=i), b"value") for i in range(3)]
    url = put_in_folder(tmp_path, *(offload(entries, 1, uuid=uuid) for uuid in (1, 2)))
    folder = "entries/public/default/orders"
    one = run("cat", url, f"{folder}/1.entries").stdout
    assert run("cat", url, folder).stdout == one
    assert run("cat", url, f"{folder}/*").stdout == one


def test_a_message_of_a_named_partition_is_not_that_of_another(tmp_path: Path) -> None:
    made = [
        offload(
            [frame(metadata(sequence_id=0), b"value %d" % number)],
            7,
            uuid=number + 1,
            name=f"public/default/persistent/pt-partition-{number}",
        )
        for number in (0, 1)
    ]
    url = put_in_folder(tmp_path, *made)
    (one,) = lines("message", url, "public/default/pt", "7:0:1:-1", "--json")
    assert one["value"] == "value 1"


def test_tail_has_no_readable_transactions(golden_url: str) -> None:
    said = run("tail", golden_url, PLAIN, "--transactions", "readable", code=2).stderr
    assert b"first open transaction" in said
