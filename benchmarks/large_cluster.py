"""Commands of living clusters at 1,000,000 ledgers of 100,000 topics with a subscription each: seconds, CPU and the most memory.

``python -m benchmarks.large_cluster`` makes a dump of that size (``--folder`` keeps it) and runs each command on it, in a process of
its own. ``--zookeeper`` fills a ZooKeeper of ours with the same, and runs them, and a dump of it, against that; it needs some 2 GiB.
"""

import argparse
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.support.large_clusters import NOW, Shape, nodes_of, write_large_dump
from tests.cluster.support.zookeeper import ZooKeeperServer

HOUR = 3_600_000
CHECKS = {
    "check": ["cluster", "check", "--json", "--pass-seconds", "0"],
    "check, in a table": ["cluster", "check", "--pass-seconds", "0"],
}
"""Of live clusters alone."""
COMMANDS = {
    "plan of brokers": ["lifecycle", "plan", "--all", "--json", "--cluster"],
    "cursors": ["cluster", "cursors", "--all", "--json"],
}


def run(name: str, arguments: Sequence[str]) -> None:
    """Run a command, and print what it takes; its findings may be loss."""
    began = time.perf_counter()
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", "from ledgerfs.cli import main; main()", *arguments],
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        said = errors.read().decode().strip().splitlines()
    seconds, cpu = time.perf_counter() - began, used.ru_utime + used.ru_stime
    print(
        f"{name}: {seconds:.1f} s, {cpu:.1f} s CPU, {used.ru_maxrss / 1024:,.0f} MiB, exit code {process.returncode}",
        flush=True,
    )
    for line in said[-3:]:
        print(f"    {line[:200]}")


def serve(address: "multiprocessing.Queue[str]", end: "multiprocessing.Queue[None]", shape: Shape) -> None:
    """Serve the nodes of a cluster."""
    with ZooKeeperServer() as server:
        for node in nodes_of(shape):
            server.set(node.path, node.data, created_ms=node.created_ms)
        server.set("/ledgers/LAYOUT", b"2\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory:1")
        address.put(server.address)
        end.get()


@contextmanager
def served(shape: Shape) -> Iterator[str]:
    """Run `serve` in a process of its own, and give its URL."""
    context = multiprocessing.get_context("spawn")
    address: multiprocessing.Queue[str] = context.Queue()
    end: multiprocessing.Queue[None] = context.Queue()
    process = context.Process(target=serve, args=(address, end, shape))
    process.start()
    try:
        yield f"pulsar+zk://{address.get()}"
    finally:
        end.put(None)
        process.join()


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=100_000)
    parser.add_argument("--ledgers", type=int, default=10, help="of each topic")
    parser.add_argument("--bookies", type=int, default=200)
    parser.add_argument("--missing", type=int, default=200, help="bookies that are not available")
    parser.add_argument("--orphans", type=int, default=20_000)
    parser.add_argument("--folder", type=Path, help="where the dump is kept")
    parser.add_argument("--zookeeper", action="store_true", help="against a ZooKeeper of ours")
    parser.add_argument("--only", action="append", choices=sorted(COMMANDS), help="may be repeated")
    arguments = parser.parse_args()
    shape = Shape(arguments.topics, arguments.ledgers, arguments.bookies, arguments.missing, arguments.orphans)
    wanted = {name: COMMANDS[name] for name in arguments.only or COMMANDS}
    print(
        f"{shape.nodes_of_ledgers:,} ledgers, {shape.topics:,} topics, {shape.missing} of {shape.bookies} bookies missing"
    )
    with tempfile.TemporaryDirectory() as folder:
        if arguments.zookeeper:
            with served(shape) as url:
                fast = ["--zk-rate", "1000000"]
                run("dump", ["cluster", "dump", url, f"{folder}/served.json.zst", *fast])
                for name, words in {**CHECKS, **wanted}.items():
                    run(name, [*words, url, *fast])
                run("topics", ["topics", url, "--json"])
            return
        path = (arguments.folder or Path(folder)) / "large.json.zst"
        if not path.exists():
            began = time.perf_counter()
            write_large_dump(path, shape, HOUR)
            print(
                f"the dump of {path.stat().st_size >> 20} MiB was made in {time.perf_counter() - began:.0f} s, of {NOW} ms"
            )
        for name, words in wanted.items():
            run(name, [*words, str(path)])


if __name__ == "__main__":
    main()
