"""``ledgerfs export`` as a user runs it: killed, interrupted, on a full disk, and run again."""

import json
import re
import signal
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ledgerfs import open_bucket
from ledgerfs.tables.table_files import TABLE_KINDS
from tests.support.commands import run as run_process
from tests.support.commands import running
from tests.support.entries import frame, metadata
from tests.support.invoked import run
from tests.support.ledgers import offload, put_in_folder
from tests.support.s3 import Fault, FaultProxy, S3Server, environment_of
from tests.support.waiting import wait_until

PLAIN = "persistent://public/golden/plain"
HIDDEN = [".ledgerfs-export.json", ".ledgerfs-export.lock"]


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("[0-9]*")}


def test_a_topic_is_exported_and_reported_on_standard_error(golden_url: str, tmp_path: Path) -> None:
    for kind in TABLE_KINDS:
        out = tmp_path / kind
        done = run("export", golden_url, PLAIN, str(out), "--format", kind)
        assert done.stdout == b""
        assert re.fullmatch(rf"{out}: 3 files, 600 messages, \d+\.\d KiB\n", done.stderr.decode())
        assert files(out) == sorted([*HIDDEN, f"26.{kind}", f"84.{kind}", f"123.{kind}"])
        again = run("export", golden_url, PLAIN, str(out), "--format", kind)
        assert again.stderr.decode() == f"{out}: 0 files, 0 messages, 0 B; 3 kept from earlier runs\n"


def test_damage_is_exit_code_1_each_time(tmp_path: Path) -> None:
    good = frame(metadata(), b"value")
    url = put_in_folder(tmp_path, offload([good, good[:-1] + b"?", good]))
    out = tmp_path / "out"
    assert b"entry 1:1: its CRC32C" in run("export", url, "orders", str(out), code=1).stderr
    assert files(out) == HIDDEN
    lines = (
        run("export", url, "orders", str(tmp_path / "2"), "--on-corrupt", "skip", code=1).stderr.decode().splitlines()
    )
    assert "left out 1:1" in lines[0]
    assert lines[1].startswith(f"{tmp_path}/2: 1 files, 2 messages, ")
    lines = (
        run("export", url, "orders", str(tmp_path / "2"), "--on-corrupt", "skip", code=1).stderr.decode().splitlines()
    )
    assert lines[0].endswith("1 damaged entries were left out by earlier runs")


def test_a_stream_has_the_messages_of_all_files(golden_url: str, tmp_path: Path) -> None:
    topic = open_bucket(golden_url).topic(PLAIN)
    for kind in TABLE_KINDS:
        done = run_process("export", golden_url, PLAIN, "-", "--format", kind, "--transactions", "readable")
        (tmp_path / f"all.{kind}").write_bytes(done.stdout)
        assert done.stderr == b"600 messages\n"
    scan = topic.scan(transactions="readable")
    assert pq.read_table(tmp_path / "all.parquet").equals(scan.to_arrow())
    assert pa.ipc.open_file(tmp_path / "all.arrow").read_all().equals(scan.to_arrow())
    assert len((tmp_path / "all.jsonl").read_bytes().splitlines()) == 600
    done = run("export", golden_url, PLAIN, "-", "--format", "jsonl", "--columns", "key", "--key", "k1")
    assert done.stdout == b'{"key":"k1"}\n' * topic.count(key="k1")


def test_a_stream_that_lacks_messages_ends_with_1(tmp_path: Path) -> None:
    good = frame(metadata(), b"value")
    url = put_in_folder(tmp_path, offload([good, good[:-1] + b"?", good]))
    command = ("export", url, "orders", "-", "--format", "jsonl", "--columns", "entry_id")
    done = run(*command, "--on-corrupt", "skip", code=1)
    assert done.stdout == b'{"entry_id":0}\n{"entry_id":2}\n'
    assert b"left out 1:1" in done.stderr
    assert b"entry 1:1: its CRC32C" in run(*command, code=1).stderr
    for kind, opened in (("parquet", pq.read_table), ("arrow", pa.ipc.open_file)):
        done = run("export", url, "orders", "-", "--format", kind, code=1)
        with pytest.raises(pa.ArrowInvalid):
            opened(pa.BufferReader(done.stdout))
    assert b"--overwrite works only for folders" in run(*command, "--overwrite", code=2).stderr


# Ends that nobody wants.


def test_files_that_may_not_grow_as_on_a_full_disk(golden_url: str, tmp_path: Path) -> None:
    for kind in TABLE_KINDS:
        out = tmp_path / kind
        # Kernels that are not on disk yet could not be written there either.
        run("export", golden_url, PLAIN, str(tmp_path / f"{kind}-before"), "--format", kind)
        command = ("export", golden_url, PLAIN, str(out), "--format", kind)
        done = run_process(*command, code=2, file_size=8000)
        assert done.stderr.decode() == f"ledgerfs: {out}/26.{kind}: File too large\n"
        assert files(out) == HIDDEN
        run(*command)
        assert len(contents(out)) == 3


@pytest.fixture
def silent_second_ledger(proxy: FaultProxy, s3_golden: str) -> FaultProxy:
    """Hold back what is read of the second ledger."""
    proxy.faults = [Fault("hang", matches=lambda method, path, headers: path.endswith("-ledger-84"))]
    return proxy


@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -9), (signal.SIGINT, 130)])
def test_killed_in_the_middle_and_run_again(
    s3_golden: str, s3: S3Server, silent_second_ledger: FaultProxy, tmp_path: Path, number: int, code: int
) -> None:
    out, reported_in = tmp_path / "out", tmp_path / "reported"
    state = out / HIDDEN[0]
    arguments = ["export", s3_golden, PLAIN, str(out)]
    # The request that is held back is given up in an hour.
    env = {**environment_of(silent_second_ledger), "LEDGERFS_STORE_TIMEOUT": "3600"}
    with running(*arguments, env=env, reported=reported_in) as process:

        def is_first_kept() -> bool:
            assert process.poll() is None, reported_in.read_text()
            return state.exists() and "26" in json.loads(state.read_text())["ledgers"]

        wait_until(is_first_kept, seconds=300)
        process.send_signal(number)
        assert process.wait(300) == code
    assert reported_in.read_bytes() == (b"interrupted\n" if number == signal.SIGINT else b"")
    assert [name for name in files(out) if not name.startswith(".")] == ["26.parquet"]
    first = (out / "26.parquet").stat()
    reported = run(*arguments, env=environment_of(s3)).stderr.decode()
    assert "2 files, 400 messages" in reported
    assert reported.endswith("; 1 kept from earlier runs\n")
    assert (out / "26.parquet").stat().st_ino == first.st_ino
    run("export", s3_golden, PLAIN, str(tmp_path / "whole"), env=environment_of(s3))
    assert contents(out) == contents(tmp_path / "whole")


def test_killed_at_any_moment_no_file_is_half_there(golden_url: str, tmp_path: Path) -> None:
    run("export", golden_url, "public/golden/blocks", str(tmp_path / "whole"))
    whole = contents(tmp_path / "whole")
    out = tmp_path / "out"
    command = ("export", golden_url, "public/golden/blocks", str(out))
    for delay in (0, 0.002, 0.01, 0.05):
        with running(*command) as process:
            while process.poll() is None and not list(out.glob(".*.parquet.part")):
                time.sleep(0.001)
            time.sleep(delay)
            process.kill()
            process.wait(300)
        assert contents(out).items() <= whole.items()
    run(*command)
    assert contents(out) == whole
    assert not list(out.glob(".*.part"))
