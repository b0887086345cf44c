"""``ledgerfs head`` and ``ledgerfs count`` as a user runs them."""

import json
from pathlib import Path

import pytest

from tests.support.commands import on_terminal
from tests.support.commands import output as output_of_process
from tests.support.commands import run as run_process
from tests.support.each import for_each
from tests.support.entries import frame, metadata
from tests.support.invoked import output, run
from tests.support.ledgers import CREATED_MS, offload, put_in_folder
from tests.support.stores import counting_bucket

PLAIN = "persistent://public/golden/plain"
ENCRYPTED = "persistent://public/golden/encrypted"


def message(i: int, payload: bytes = b"value", **fields: object) -> bytes:
    return frame(metadata(sequence_id=i, publish_time_ms=CREATED_MS + i, **fields), payload)


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A topic of which a message is damaged, and a sound one."""
    broken = offload(
        [message(0), message(1)[:-1] + b"?", message(2)], 1, uuid=1, name="public/default/persistent/broken"
    )
    return put_in_folder(tmp_path, broken, offload([message(0), message(1)], 2, uuid=2))


@pytest.fixture
def odd_url(tmp_path: Path) -> str:
    """A topic with odd values."""
    entries = [
        message(0, b"plain text"),
        message(1, "ümlaut \N{SNOWMAN}\n\x1b[31m".encode() + b"\xff\x00"),
        message(2, value_is_null=True),
        message(3, b"x" * 5000, key=b"k\x07"),
    ]
    return put_in_folder(tmp_path, offload(entries))


# head


def test_head_shows_id_time_and_what_a_message_holds(golden_url: str) -> None:
    lines = output_of_process("head", "-n", "3", golden_url, PLAIN).splitlines()
    assert [line for line in lines if not line.startswith(" ")] == [
        "26:0  2026-11-21T06:00:13.160Z",
        "26:1  2026-11-21T06:00:13.184Z",
        "26:2  2026-11-21T06:00:13.185Z",
    ]
    assert lines[1:5] == [
        "  event_time    2023-11-14T22:13:20.000Z",
        "  key           k0",
        r"  ordering_key  \x88p\xd5u\xa0\x87",
        "  properties    n=0, empty=",
    ]
    assert lines[5].startswith("  value         ledger, block by block; ")
    assert len(output("head", golden_url, PLAIN).split("\n26:")) == 10
    assert len(output("head", "-n", "0", golden_url, PLAIN, "--json").splitlines()) == 600


def test_head_escapes_what_would_drive_a_terminal(odd_url: str) -> None:
    lines = output("head", "-n", "4", odd_url, "orders").splitlines()
    assert lines[1] == "  value         plain text"
    assert lines[3] == r"  value         ümlaut ☃\n\x1b[31m\xff\x00"
    assert lines[5] == "  value         (null)"
    assert lines[7] == r"  key           k\x07"
    assert lines[8] == "  value         " + "x" * 5000


def test_head_cuts_long_values_on_a_terminal_only(odd_url: str) -> None:
    shown, _ = on_terminal("head", "-n", "4", odd_url, "orders", columns=60)
    assert max(map(len, shown.splitlines())) == 60
    assert shown.splitlines()[-1].endswith("xxx… (4.9 KiB; --full)")
    shown, _ = on_terminal("head", "-n", "4", "--full", odd_url, "orders", columns=60)
    assert "x" * 5000 in shown


def test_head_shows_the_columns_asked_for(golden_url: str) -> None:
    lines = output("head", "-n", "2", golden_url, PLAIN, "--columns", "sequence_id,producer_name").splitlines()
    assert [line.split() for line in lines[1:3]] == [["sequence_id", "1"], ["producer_name", "plain-0"]]
    assert len(lines) == 6


def test_head_of_a_range_of_time(golden_url: str) -> None:
    text = output("head", "-n", "1", golden_url, PLAIN, "--start", "2026-11-21T06:00:13.185Z")
    assert text.startswith("26:2  ")
    assert output("head", golden_url, PLAIN, "--end", "2020-01-01") == ""


def test_head_as_json_is_as_the_jsonl_view(golden_url: str) -> None:
    found = [json.loads(line) for line in output("head", "-n", "3", "--json", golden_url, PLAIN).splitlines()]
    assert [(one["ledger_id"], one["entry_id"]) for one in found] == [(26, 0), (26, 1), (26, 2)]
    assert found[0]["key"] == "k0"
    (one,) = output("head", "-n", "1", "--json", golden_url, PLAIN, "--columns", "key,entry_id").splitlines()
    assert json.loads(one) == {"key": "k0", "entry_id": 0}


def test_head_of_damage_and_of_encrypted_messages_says_so(url: str, golden_url: str) -> None:
    assert b"entry 1:1: its CRC32C is" in run("head", url, "broken", code=1).stderr
    done = run("head", url, "broken", "--on-corrupt", "skip", code=1)
    assert [line for line in done.stdout.splitlines() if line.startswith(b"1:")][-1].startswith(b"1:2 ")
    assert done.stderr.startswith(b"persistent://public/default/broken: left out 1:1: its CRC32C is")
    assert b"encrypted" in run("head", golden_url, ENCRYPTED, code=2).stderr
    assert (
        output("head", "-n", "1", golden_url, ENCRYPTED, "--on-encrypted", "null").splitlines()[-1].endswith("(null)")
    )


@for_each("arguments", [["nosuch"], [PLAIN, "-n", "-1"], [PLAIN, "--columns", "kye"], []])
def test_head_used_wrongly_is_exit_code_2(golden_url: str, arguments: list[str]) -> None:
    assert run("head", golden_url, *arguments, code=2).stderr


def test_head_reads_only_what_it_shows(tmp_path: Path) -> None:
    large = offload([message(i, bytes(50_000)) for i in range(400)], block_size=8 << 20)
    bucket, store = counting_bucket(put_in_folder(tmp_path, large))
    rows = [batch.num_rows for batch in bucket.topic("public/default/orders").scan(limit=5)]
    assert sum(rows) == 5
    assert len(store.requests) == 2  # the index, and the first window
    assert store.bytes_read < (1 << 20) + 10_000


# count


def test_count_is_a_table_with_a_total(golden_url: str) -> None:
    lines = [line.split() for line in output("count", golden_url).splitlines()]
    assert lines[0] == ["topic", "messages", "entries", "bytes"]
    assert lines[-1] == ["total", "13,040", "4,221", "25.4", "MiB"]
    assert len(lines) == 1 + 35 + 1
    assert [PLAIN, "600", "600", "146.5", "KiB"] in lines
    assert ["persistent://public/golden/string-batched", "120", "15", "2.7", "KiB"] in lines


def test_count_of_some_topics_and_times(golden_url: str) -> None:
    lines = output("count", golden_url, PLAIN, "public/golden/encrypted").splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [[ENCRYPTED, "120"], [PLAIN, "600"], ["total", "720"]]
    (found,) = json.loads(output("count", golden_url, PLAIN, "--end", "2026-11-21T06:00:13.185Z", "--json"))
    assert (found["name"], found["messages"], found["damaged"], found["missing"]) == (PLAIN, 2, False, [])
    assert run("count", golden_url, "nosuch", code=2).stderr


def test_a_slack_of_nothing_is_one(tmp_path: Path) -> None:
    early = frame(metadata(publish_time_ms=CREATED_MS - 60_000), b"value")
    ledgers = [offload([early], number, uuid=number, created_ms=CREATED_MS + number) for number in (1, 2)]
    command = (
        "count",
        put_in_folder(tmp_path, *ledgers),
        "--end",
        "2023-11-14T22:13:00Z",
        "--json",
        "--clock-slack-ms",
    )
    assert [json.loads(output(*command, slack))[0]["messages"] for slack in ("0", "100000")] == [0, 2]


def test_count_goes_on_after_damage_and_ends_with_exit_code_1(url: str) -> None:
    done = run_process("count", url, code=1)
    lines = [line.split() for line in done.stdout.decode().splitlines()]
    assert [line[:3] for line in lines[1:]] == [
        ["persistent://public/default/broken", "-", "3"],
        ["persistent://public/default/orders", "2", "2"],
        ["total", "2", "5"],
    ]
    (error,) = done.stderr.decode().splitlines()
    assert error.startswith("persistent://public/default/broken: entry 1:1: its CRC32C is")
    done = run("count", url, "--on-corrupt", "skip", "--json", code=1)
    assert [(one["messages"], one["damaged"]) for one in json.loads(done.stdout)] == [(2, True), (2, False)]
    assert done.stderr.decode().startswith("persistent://public/default/broken: left out 1:1: its CRC32C is")


def test_many_damaged_places_are_a_few_lines(tmp_path: Path) -> None:
    broken = [message(i)[:-1] + b"?" for i in range(50)]
    done = run("count", put_in_folder(tmp_path, offload(broken)), "--on-corrupt", "skip", code=1)
    assert len(done.stderr.splitlines()) == 11
    assert b"at 40 more places" in done.stderr


def test_count_of_nothing(tmp_path: Path) -> None:
    done = run("count", str(tmp_path))
    assert (done.stdout, done.stderr.count(b"\n")) == (b"", 1)
    assert json.loads(output("count", str(tmp_path), "--json")) == []
