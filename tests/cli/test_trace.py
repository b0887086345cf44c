"""``--trace`` and ``--stats``: what a command asked of the store, on standard error, apart from its output."""

import re
from pathlib import Path

from ledgerfs.cli.group import cli
from tests.cli.test_empty_values import commands
from tests.support.invoked import run
from tests.support.s3 import CREDENTIALS, ENVIRONMENT, Fault, FaultProxy

_STATS = re.compile(
    r"stats: requests (\d+), bytes asked (\d+) \(.*\), bytes used \d+ \(.*\), hits \d+, waits \d+, retries (\d+), "
    r"seconds \d+\.\d\d"
)


def test_trace_prints_each_request_and_stats_the_sum(golden_url: str, tmp_path: Path) -> None:
    arguments = ("ls", "-l", golden_url, "entries/public/golden")
    plain, reported = (
        # Folders of their own, for a catalog that is kept needs no requests.
        run(*arguments, *more, env={"LEDGERFS_CACHE_DIR": str(tmp_path / str(len(more)))})
        for more in ((), ("--trace", "--stats"))
    )
    assert plain.stderr == b""
    assert reported.stdout == plain.stdout
    *lines, last = reported.stderr.decode().splitlines()
    assert lines[0].startswith(f"trace: LIST {golden_url}: 0 bytes in ")
    reads = [
        re.fullmatch(r"trace: GET \S+-index 0-(\d+): \1 bytes in [\d.]+ ms, try 1: ok", line) for line in lines[1:]
    ]
    assert reads
    assert all(reads)
    stats = _STATS.fullmatch(last)
    assert stats
    asked = sum(int(read[1]) for read in reads if read)
    assert [int(number) for number in stats.groups()] == [len(lines), asked, 0]


def test_stats_are_reported_also_when_the_command_fails(golden_url: str) -> None:
    lines = run("info", golden_url, "999999", "--stats", code=2).stderr.decode().splitlines()
    assert any(_STATS.fullmatch(line) for line in lines)
    assert lines[-1].startswith("ledgerfs: ")


def test_retries_show_in_both_and_credentials_in_neither(s3_golden: str, proxy: FaultProxy) -> None:
    proxy.faults = [Fault("503", times=1, matches=lambda method, path, headers: True)]
    done = run("topics", s3_golden, "-o", f"endpoint_url={proxy.endpoint}", "--trace", "--stats", env=ENVIRONMENT)
    lines = done.stderr.decode().splitlines()
    assert lines[0].startswith("trace: LIST s3://golden: 0 bytes in ")
    assert "try 1: the store failed" in lines[0]
    assert re.match(r"trace: LIST s3://golden: try 1 failed \(.*\), again in \d\.\d\d s", lines[1])
    assert lines[2].endswith("try 2: ok")
    stats = next(filter(None, map(_STATS.fullmatch, lines)))
    assert stats[3] == "1", lines
    assert not any(secret.encode() in done.stderr for secret in CREDENTIALS.values())


# `umount` and `warm` ask no store, those of `bookie` read disks,
# those of `cluster` and `lifecycle` ask ZooKeeper and bookies, and `spark` has stores
# of many processes.
def test_every_command_has_the_options() -> None:
    found = dict(commands(cli))
    asking = [path for path in found if path[0] not in {"umount", "warm", "bookie", "cluster", "lifecycle", "spark"}]
    assert len(asking) > 10
    for path in asking:
        assert {"--trace", "--stats"} <= {option for parameter in found[path].params for option in parameter.opts}, path
