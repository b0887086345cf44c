"""`ledgerfs cluster dump --to` and `cluster dumps` as a user runs them, and commands that take a kept dump."""

import json
import os
import signal
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Self

import pytest

from ledgerfs_cluster.cli.cluster.dump import repeat
from ledgerfs_cluster.cli.end_signals import Interrupts
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
def test_dumps_are_kept_listed_and_written_to_files(cluster: LiveCluster, tier: Path, tmp_path: Path) -> None:
    told = run_process("cluster", "dump", cluster.url, "--to", str(tier)).stderr
    assert b" nodes, " in told
    cluster.roll_over(TOPIC)
    dump(cluster, tier)
    found = json.loads(output_of_process("cluster", "dumps", str(tier), "--json"))
    assert [one["cluster"] for one in found] == [folder_in(tier).name] * 2
    assert [one["key"].split("/")[-1] for one in found] == names_in(tier)
    lines = output("cluster", "dumps", str(tier)).splitlines()
    assert len(lines) == 3
    assert lines[2].endswith(found[1]["key"].split("/")[-1])
    newest = tmp_path / "x.json.zst"
    answer = json.loads(output("cluster", "dumps", str(tier), "--get", str(newest), "--json"))
    assert answer["key"] == found[1]["key"]
    assert newest.read_bytes() == (tier / found[1]["key"]).read_bytes()
    assert stat.S_IMODE(newest.stat().st_mode) == 0o600
    ledgers = [len(survey_dump(path, lambda *_: None).ledgers) for path in (tier / found[0]["key"], newest)]
    assert ledgers[1] == ledgers[0] + 1
    assert b"is there already" in run("cluster", "dumps", str(tier), "--get", str(newest), code=2).stderr
    assert not list(tmp_path.glob(".*.part"))


@pytest.mark.long
def test_a_kept_dump_stands_where_a_dump_does(cluster: LiveCluster, tier: Path, tmp_path: Path) -> None:
    dump(cluster, tier)
    run("cluster", "dump", cluster.url, str(tmp_path / "plain.json.zst"))
    kept = f"{folder_in(tier)}/{names_in(tier)[-1]}"
    policy = tmp_path / "policy.toml"
    policy.write_text("")
    for command in (
        ("cluster", "retention", "--json", "--all"), ("cluster", "cursors", "--json", "--all"), ("cluster", "check", "--json"),
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
    told = run("cluster", "retention", "s3://tier/dump.json.zst", code=2).stderr.decode()
    assert "only a path of this machine is taken here" in told


@pytest.mark.long
def test_old_ones_are_removed(cluster: LiveCluster, tier: Path) -> None:
    for _ in range(4):
        dump(cluster, tier)
    assert len(names_in(tier)) == 4
    time_ago = time.time() - 100
    for name in names_in(tier):
        os.utime(folder_in(tier) / name, (time_ago, time_ago))
    before = names_in(tier)
    found = json.loads(
        output("cluster", "dump", cluster.url, "--to", str(tier), "--keep", "2", "--keep-for", "5s", "--json")
    )
    assert found["removed"] == [f"{DUMPS}/{folder_in(tier).name}/{name}" for name in before[:3]]
    left = names_in(tier)
    assert (left[0], len(left)) == (before[3], 2)


@for_each(
    ("arguments", "says"),
    [((), b"either FILE or --to"), (("x", "--to", "tier"), b"either FILE or --to"), (("x", "--every", "1h"), b"--every is for --to"),
     (("--to", "pulsar+zk://127.0.0.1:1"), b"beside a bucket"), (("--to", "tier", "--keep", "0"), b"0"),
     (("--to", ""), b"empty"), (("s3://tier/x",), b"--to takes the URL")],
)  # fmt: skip
def test_wrong_usage(arguments: tuple[str, ...], says: bytes) -> None:
    assert says in run("cluster", "dump", "pulsar+zk://127.0.0.1:1", *arguments, code=2).stderr


def test_a_bucket_that_is_not_there_is_told(cluster: LiveCluster, tmp_path: Path) -> None:
    run("cluster", "dump", cluster.url, "--to", str(tmp_path / "none"), code=3)
    assert not (tmp_path / "none").exists()


class Rounds:
    """The command with --every, as a process, for ``with``."""

    def __init__(self, cluster: LiveCluster, tier: Path, *rest: str, spool: Path) -> None:
        arguments = [LEDGERFS, "cluster", "dump", cluster.url, "--to", str(tier), "--every", "1s", *rest]
        env = {**os.environ, "TMPDIR": str(spool)}
        self.process = subprocess.Popen(
            arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, env=env
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until something is so; fail if the command ends before."""

        def is_over() -> bool:
            return is_so() or self.process.poll() is not None

        wait_until(is_over, seconds=300)
        assert is_so(), self.process.communicate()

    def line_with(self, text: bytes) -> bytes:
        """Return the next line on standard error that contains a text."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if text in line:
                return line
        raise AssertionError(f"ended without {text!r}")

    def end(self, by: signal.Signals) -> tuple[int, str, str]:
        """End it by a signal; return its exit code and the rest of its output."""
        self.process.send_signal(by)
        return self.ended()

    def ended(self) -> tuple[int, str, str]:
        """Return its exit code, and the rest of its output, once it has ended."""
        try:
            told = self.process.communicate(timeout=300)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"goes on: {[text[-2000:] for text in self.process.communicate()]}") from None
        return self.process.returncode, told[0].decode(), told[1].decode()


@pytest.mark.process
@pytest.mark.long
@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_every_so_often_until_a_signal(cluster: LiveCluster, tier: Path, tmp_path: Path, by: signal.Signals) -> None:
    (tmp_path / "spool").mkdir()
    with Rounds(cluster, tier, "--json", spool=tmp_path / "spool") as rounds:
        rounds.until(lambda: len(names_in(tier)) >= 3)
        code, told, said = rounds.end(by)
    assert code == 0, said
    assert "Traceback" not in said
    assert told.count('"key"') >= 2
    assert not list((tmp_path / "spool").iterdir())
    run("cluster", "dumps", str(tier))


@pytest.mark.process
@pytest.mark.long
def test_a_signal_in_the_middle_of_a_dump_drops_it(cluster: LiveCluster, tier: Path, tmp_path: Path) -> None:
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
    with Rounds(cluster, tier, "--zk-rate", "20", spool=spool) as rounds:
        rounds.until(is_held.is_set)
        rounds.process.send_signal(signal.SIGTERM)
        is_released.set()
        code, _, said = rounds.ended()
    assert (code, "Traceback" in said) == (0, False)
    assert not (tier / "_ledgerfs").exists()
    assert not list((tmp_path / "spool").iterdir())


def test_who_is_told_that_a_dump_is_kept_may_end_the_rounds_at_once() -> None:
    rounds = iter([OSError("no"), None])

    def once() -> None:
        if (error := next(rounds)) is not None:
            raise error

    def tell(_: None) -> None:
        raise KeyboardInterrupt

    assert repeat(0.001, once, tell, Interrupts()) is True


def test_a_signal_that_python_drops_ends_the_rounds() -> None:
    interrupts, rounds = Interrupts(), list[int]()

    def once() -> None:
        rounds.append(len(rounds))
        with suppress(KeyboardInterrupt):
            interrupts.interrupt()

    assert repeat(0.001, once, lambda _: None, interrupts) is True
    assert rounds == [0]


@pytest.mark.process
@pytest.mark.long
def test_a_round_that_fails_is_said_and_the_next_one_is_tried(cluster: LiveCluster, tier: Path, tmp_path: Path) -> None:
    (tmp_path / "spool").mkdir()
    cluster.zookeeper.no_auth("/ledgers/INSTANCEID")
    with Rounds(cluster, tier, spool=tmp_path / "spool") as rounds:
        rounds.line_with(b"no dump this time")
        cluster.zookeeper.as_to_all("/ledgers/INSTANCEID")
        rounds.until(lambda: len(names_in(tier)) >= 1)
        # The first that came to its end was not done, and the last one was, or is.
        rounds.line_with(b" nodes, ")
        assert rounds.end(signal.SIGTERM)[0] == 0


@pytest.mark.process
@pytest.mark.long
def test_the_exit_code_is_that_of_the_last_round(cluster: LiveCluster, tier: Path, tmp_path: Path) -> None:
    (tmp_path / "spool").mkdir()
    cluster.zookeeper.no_auth("/ledgers/INSTANCEID")
    with Rounds(cluster, tier, spool=tmp_path / "spool") as rounds:
        rounds.line_with(b"no dump this time")
        code, _, said = rounds.end(signal.SIGTERM)
    assert code == 1
    assert "Traceback" not in said
