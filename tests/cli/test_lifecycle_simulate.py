"""`ledgerfs lifecycle simulate` as a user runs it, on a dump of topics whose rates are known."""

import json
from pathlib import Path

import pytest

from tests.support.busy_clusters import Busy, write_busy_dump
from tests.support.commands import run as run_process
from tests.support.invoked import output, run

RATE, HOURS = 100_000.0, 3600
POLICY = """
[service]
ceiling_rate = "100MiB"
[buckets.tier]
url = "s3://tier"
block_size = "64MiB"
[[topics]]
match = 'public/busy/.*'
offload_after = "1d"
deletion_lag = "4h"
bucket = "tier"
"""


@pytest.fixture(name="files")
def _files(tmp_path: Path) -> tuple[str, str]:
    write_busy_dump(tmp_path / "dump.json.zst", [Busy(RATE), Busy(RATE)])
    (tmp_path / "policy.toml").write_text(POLICY)
    return str(tmp_path / "dump.json.zst"), str(tmp_path / "policy.toml")


def test_days_are_what_rates_and_rules_make_of_them(files: tuple[str, str]) -> None:
    found = json.loads(output("lifecycle", "simulate", *files, "--days", "30", "--json", "--price", "cold=0.02"))
    assert [one["day"] for one in found["days"]] == list(range(31))
    assert found["assumed"]["written_bytes_per_second"] == pytest.approx(2 * RATE, rel=0.01)
    last, a_ledger = found["days"][-1], 2 * RATE * 4 * HOURS
    # Write quorum 2; what is open, then a day, then the lag.
    assert last["hot_bytes"] == pytest.approx(2 * 2 * RATE * (24 + 4 + 2) * HOURS, abs=2 * a_ledger)
    # Kept for 20 days after it was closed.
    assert last["cold_bytes"] == pytest.approx(2 * RATE * 19 * 24 * HOURS, abs=a_ledger)
    assert last["hot_bytes_without"] == pytest.approx(2 * 2 * RATE * 20 * 24 * HOURS, rel=0.02)
    assert last["uploaded_bytes"] == pytest.approx(2 * RATE * 24 * HOURS, rel=0.2)
    assert last["cost"] == pytest.approx(0.02 * last["cold_bytes"] / 2**30 / 730 * 24, rel=0.05)
    assert found["totals"]["too_late_bytes"] == 0
    assert found["assumed"]["topics_without_bucket"] == 0


def test_the_table_has_a_line_for_each_day_and_the_sums_are_said(files: tuple[str, str]) -> None:
    done = run_process("lifecycle", "simulate", *files, "--days", "3")
    lines = done.stdout.decode().splitlines()
    assert len(lines) == 1 + 4
    assert "cost" not in lines[0]
    assert b"2 topics, of which 2 are offloaded; after 3 days" in done.stderr
    assert "cost" in output("lifecycle", "simulate", *files, "--days", "3", "--price", "put=1").splitlines()[0]


def test_too_low_a_rate_is_said(files: tuple[str, str]) -> None:
    Path(files[1]).write_text(POLICY.replace("100MiB", "20KiB"))
    done = run("lifecycle", "simulate", *files, "--days", "60")
    assert b"were past their retention before they were uploaded" in done.stderr


@pytest.mark.long
@pytest.mark.parametrize("ending", ["svg", "png"])
def test_a_picture_is_drawn(files: tuple[str, str], tmp_path: Path, ending: str) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / f"month.{ending}"
    assert b"drawn" in run("lifecycle", "simulate", *files, "--plot", str(picture)).stderr
    data = picture.read_bytes()
    assert data.startswith(b"\x89PNG" if ending == "png" else b"<?xml")
    if ending == "svg":
        for text in (b"What is stored", b"hot: on bookies", b"days from the dump", b"dump.json.zst under policy.toml"):
            assert text in data


def test_a_picture_needs_a_kind_that_can_be_drawn(files: tuple[str, str], tmp_path: Path) -> None:
    done = run("lifecycle", "simulate", *files, "--plot", str(tmp_path / "month.gif"), code=2)
    assert b".svg or .png" in done.stderr
    assert not done.stdout


def test_prices_have_names(files: tuple[str, str]) -> None:
    done = run("lifecycle", "simulate", *files, "--price", "egress=1", code=2)
    assert b"hot, cold or put" in done.stderr
