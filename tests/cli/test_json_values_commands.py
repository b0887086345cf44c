"""``head`` and ``count`` of topics whose values are JSON, without any schema."""

import json
from pathlib import Path

import pytest

from tests.support.invoked import output, run
from tests.support.json_topics import ledger, put
from tests.support.ledgers import put_in_folder

EVENTS = "public/default/events"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return put(tmp_path / "b", [{"a": 1}, {"b": "x"}, b"no json"], [{"c": 2.5}, None])


def values(text: str) -> list[object]:
    return [json.loads(line)["value"] for line in text.splitlines()]


def test_head_has_the_fields_of_what_it_shows(url: str) -> None:
    shown = output("head", url, EVENTS, "--values", "json", "-n", "2", "--columns", "value", "--flatten")
    assert "  a " in shown
    assert "  c " not in shown
    assert values(output("head", url, EVENTS, "--values", "json", "-n", "2", "--json")) == [{"a": 1}, {"b": "x"}]
    assert "value" not in output("head", url, EVENTS, "--values", "json", "--columns", "sequence_id")
    all_of_it = run("head", url, EVENTS, "--values", "json", "--json", code=1)
    assert "not JSON" in all_of_it.stderr.decode()
    assert [json.loads(line).get("value") for line in all_of_it.stdout.splitlines()] == [
        {"a": 1}, {"b": "x"}, None, {"c": 2.5}, None
    ]  # fmt: skip
    left = run(
        "head", url, EVENTS, "--values", "json", "--on-undecodable", "skip", "--json", "-n", "3", "--flatten", code=1
    )
    assert [json.loads(line).get("c") for line in left.stdout.splitlines()] == [None, None, 2.5]


def test_count_leaves_out_what_is_no_json(url: str, tmp_path: Path) -> None:
    done = run("count", url, EVENTS, "--values", "json", "--on-undecodable", "skip", "--json", code=1)
    assert [one["messages"] for one in json.loads(done.stdout)] == [4]
    whole = ledger(3, {"b": "x" * 100})
    put_in_folder(tmp_path / "b", whole, ledger(1, {"a": 1}, name="public/default/persistent/other"))
    (key,) = [key for key, data in whole.objects.items() if data == whole.data]
    (tmp_path / "b" / key).write_bytes(whole.data.replace(b"x" * 100, b"y" * 100))
    done = run("count", url, "--values", "json", "--on-undecodable", "skip", "--json", code=1)
    assert [one["messages"] for one in json.loads(done.stdout)] == [None, 1]
