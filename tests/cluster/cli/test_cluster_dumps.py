"""`ledgerfs cluster dump --to` and `cluster dumps` as a user runs them, and commands that take a kept dump."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

from ledgerfs_cluster.snapshot.surveying import survey_dump
from tests.cluster.support.live_clusters import LiveCluster, messages
from tests.cluster.support.zookeeper import GET_CHILDREN, GET_CHILDREN_2, GET_DATA, MULTI_READ
from tests.support.commands import LEDGERFS
from tests.support.commands import output as output_of_process
from tests.support.commands import run as run_process
from tests.support.each import for_each
from tests.support.invoked import output, run
from tests.support.waiting import wait_until

TOPIC = "public/default/orders"
CLUSTER = "47099c88-d3cd-44de-91a6-f8bc42d28371"
DUMPS = "_ledgerfs/dumps"


@pytest.fixture(name="cluster")
def _cluster(tmp_path: Path) -> Iterator[LiveCluster]:
    with LiveCluster(tmp_path / "cluster") as made:
        made.write_ledger(TOPIC, messages(3))
        yield made
        assert made.not_reads() == []


@pytest.fixture(name="tier")
def _tier(tmp_path: Path) -> Path:
    (tmp_path / "tier").mkdir()
    return tmp_path / "tier"


def folder_in(tier: Path) -> Path:
    (found,) = (tier / DUMPS).glob(f"{CLUSTER}.*")
    return found


def names_in(tier: Path) -> list[str]:
    return sorted(path.name for path in (tier / DUMPS).glob(f"{CLUSTER}.*/*") if not path.name.endswith(".part"))


def dump(cluster: LiveCluster, tier: Path | str, *rest: str, **options: object) -> str:
    return run("cluster", "dump", cluster.url, "--to", str(tier), *rest, **options).stderr.decode()


@pytest.mark.long
def test_dumps_are_kept_and_listed(cluster: LiveCluster, tier: Path) -> None:
    reported = run_process("cluster", "dump", cluster.url, "--to", str(tier)).stderr
    assert b" nodes, " in reported
    cluster.roll_over(TOPIC)
    dump(cluster, tier)
    found = json.loads(output_of_process("cluster", "dumps", str(tier), "--json"))
    assert [one["cluster"] for one in found] == [folder_in(tier).name] * 2
    assert [one["key"].split("/")[-1] for one in found] == names_in(tier)
    lines = output("cluster", "dumps", str(tier)).splitlines()
    assert len(lines) == 3
    assert lines[2].endswith(found[1]["key"].split("/")[-1])
    ledgers = [len(survey_dump(tier / one["key"], lambda *_: None).ledgers) for one in found]
    assert ledgers[1] == ledgers[0] + 1


@pytest.mark.long
def test_a_kept_dump_stands_where_a_dump_does(cluster: LiveCluster, tier: Path, tmp_path: Path) -> None:
    dump(cluster, tier)
    run("cluster", "dump", cluster.url, str(tmp_path / "plain.json.zst"))
    kept = f"{folder_in(tier)}/{names_in(tier)[-1]}"
    policy = tmp_path / "policy.toml"
    policy.write_text("")
    for command in (
        ("cluster", "cursors", "--json", "--all"),
        ("lifecycle", "plan", str(policy), "--json", "--cluster"),
    ):  # fmt: skip
        found = [
            json.loads(output(*command, source))
            for source in (kept, f"file://{kept}", str(tmp_path / "plain.json.zst"))
        ]
        for one in found:
            if isinstance(one, dict):
                for name in ("source", "dump", "cluster", "read", "began"):
                    one.pop(name, None)
        assert found[0] == found[1]
        assert set(found[0]) == set(found[2]) if isinstance(found[0], dict) else len(found[0]) == len(found[2])
    reported = run("cluster", "cursors", "s3://tier/dump.json.zst", code=2).stderr.decode()
    assert "expected a path on this machine" in reported


@for_each(
    ("arguments", "says"),
    [((), b"pass FILE or --to"), (("x", "--to", "tier"), b"pass FILE or --to"),
     (("--to", "pulsar+zk://127.0.0.1:1"), b"stored in a bucket or folder"), (("--to", "tier", "--keep", "0"), b"0"),
     (("--to", ""), b"empty"), (("s3://tier/x",), b"use --to for the URL")],
)  # fmt: skip
def test_wrong_usage(arguments: tuple[str, ...], says: bytes) -> None:
    assert says in run("cluster", "dump", "pulsar+zk://127.0.0.1:1", *arguments, code=2).stderr


def test_a_bucket_that_is_not_there_is_reported(cluster: LiveCluster, tmp_path: Path) -> None:
    run("cluster", "dump", cluster.url, "--to", str(tmp_path / "none"), code=3)
    assert not (tmp_path / "none").exists()


@pytest.mark.process
@pytest.mark.long
@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_in_the_middle_of_a_dump_drops_it(
    cluster: LiveCluster, tier: Path, tmp_path: Path, by: signal.Signals
) -> None:
    spool, is_held, is_released = tmp_path / "spool", Event(), Event()
    spool.mkdir()
    for number in range(400):
        cluster.zookeeper.set(f"/ledgers/cookies/more-{number:04d}", b"x")

    def hold(answer: bytes) -> bytes:
        """Hold each answer back that comes once the dump is under way."""
        if any(spool.rglob("*.part")):
            is_held.set()
            is_released.wait(300)
        return len(answer).to_bytes(4, "big") + answer

    cluster.zookeeper.instead = dict.fromkeys((GET_DATA, GET_CHILDREN, GET_CHILDREN_2, MULTI_READ), hold)
    arguments = [LEDGERFS, "cluster", "dump", cluster.url, "--to", str(tier), "--zk-rate", "20"]
    env = {**os.environ, "TMPDIR": str(spool)}
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, env=env) as process:
        try:
            wait_until(lambda: is_held.is_set() or process.poll() is not None, seconds=300)
            process.send_signal(by)
            is_released.set()
            said = process.communicate(timeout=300)[1]
        finally:
            process.kill()
    assert process.returncode != 0
    assert b"Traceback" not in said
    assert not (tier / "_ledgerfs").exists()
    assert not list(spool.iterdir())
