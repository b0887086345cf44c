"""The defects of a cluster, as its metadata shows them, are all named, and nothing that lives is.

Ledgers roll over every 100 entries; the broker trims only when it is told to, and leaves BookKeeper's copies of what it offloads.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from interop import states
from interop.live_cluster import LiveCluster, lent_live_cluster
from interop.live_producer import acknowledging, connected, going_on, produce_to
from interop.processes import LEASH
from interop.s3_server import BUCKET
from interop.stages import stage, took
from interop.surveys import ledgers_of, path_of
from ledgerfs_cluster.formats.managed_ledgers.cursor_info import parse_cursor_info

_BROKER = {
    "managedLedgerMaxEntriesPerLedger": states.ENTRIES_A_LEDGER,
    "managedLedgerCursorMaxEntriesPerLedger": 20,
    "managedLedgerDefaultMarkDeleteRateLimit": 1000,
    "managedLedgerOffloadDeletionLagMs": 4 * 3_600_000,
    "retentionCheckIntervalInSeconds": 3600,
    "transactionCoordinatorEnabled": "false",
}
_GRACE_S = 5
_ROLLING_S = 120
"""For how long ledgers roll over below the doctor."""
_LEAST_ROLLOVERS_S = 5
"""Ledgers that are made in a second, at least: ten are wanted, which a machine that does much else may not manage."""
_LEDGERFS = str(Path(sys.executable).with_name("ledgerfs"))


@pytest.fixture(scope="module")
def live(folder: Path) -> Iterator[LiveCluster]:
    """The cluster."""
    with lent_live_cluster(folder / "states", _BROKER) as made:
        yield made


@dataclass(frozen=True)
class Made:
    """All states."""

    orphans: states.Orphans
    crash: states.CrashInTrim
    expired: list[states.Expired]
    half: list[states.HalfOffload]
    ended_s: float


@pytest.fixture(scope="module")
def made(live: LiveCluster) -> Made:
    """All states, of a broker that was killed; another one runs since."""
    with stage("states: make them"), connected(live.cluster.service_url) as client:
        expired = states.make_expired(live, client)
        half = states.make_half_offloads(live, client)
    with stage("states: make them"):
        orphans, crash = states.make_orphans_in_a_crash(live)
    with stage("states: start the broker"):
        live.cluster.start_broker(live.s3)
    return Made(orphans, crash, expired, half, time.time())


def test_no_live_ledger_is_named_while_ledgers_roll_over(live: LiveCluster) -> None:
    """Of topics and of subscriptions, both for minutes."""
    live.cluster.admin.make_namespace("public/rolling")
    topics = [f"persistent://public/rolling/{number}" for number in range(3)]
    cursor_ledgers: dict[str, set[int]] = {topic: set() for topic in topics}
    found: list[dict[str, Any]] = []
    checks = 0
    with connected(live.cluster.service_url) as client, live.unrecorded() as nodes, ExitStack() as stack:
        for topic in topics:
            stack.enter_context(acknowledging(client, topic, "s"))
            stack.enter_context(going_on(produce_to(client, topic, 10), 40, 0.1))
        before, began = _ledgers_ever_made(nodes), time.monotonic()
        while time.monotonic() < began + _ROLLING_S:
            found += _findings(live)
            checks += 1
            for topic in topics:
                path = f"{path_of(topic)}/s"
                cursor_ledgers[topic].add(parse_cursor_info(nodes.get(path)[0], key=path).cursors_ledger)
        made, seconds = _ledgers_ever_made(nodes) - before, time.monotonic() - began
    took(f"states: {checks} checks while {made:,} ledgers were made, {made / seconds:.1f} a second", seconds)
    with live.unrecorded() as nodes:
        of_topics = sum(len(ledgers_of(nodes, topic)) for topic in topics)
        healthy = states.ledgers_of_schemas_that_brokers_lost(nodes, live.cluster.bookkeeper_ledgers())
    assert [one for one in found if not set(one["ledgers"]) <= healthy] == []
    assert made / seconds >= _LEAST_ROLLOVERS_S, f"{made} ledgers in {seconds:.0f} s"
    assert checks > 3
    assert of_topics > _ROLLING_S
    assert min(map(len, cursor_ledgers.values())) > 3, cursor_ledgers


def test_the_doctor_names_all_states_and_nothing_else(live: LiveCluster, made: Made) -> None:
    with live.unrecorded() as nodes:
        healthy = states.ledgers_of_schemas_that_brokers_lost(nodes, live.cluster.bookkeeper_ledgers())
    healthy.discard(made.orphans.schema_ledger)
    time.sleep(max(0.0, _GRACE_S - (time.time() - made.ended_s)))
    with stage("states: check"):
        found = _findings(live, "--max-expired", "1s", "--max-attempt", "1s")
    ledgers: dict[str, set[int]] = {}
    for one in found:
        ledgers.setdefault(one["kind"], set()).update(one["ledgers"])
    orphans, half = made.orphans, {one.state: one.ledger for one in made.half}
    ledgers["orphan-schema-ledger"] -= healthy
    objects = ledgers.pop("orphan-object")
    subjects = " ".join(one["subject"] + one["evidence"] for one in found if one["kind"] == "orphan-object")
    assert len(objects) == 2, objects
    assert all(key.removesuffix("-index") in subjects for key in orphans.objects), subjects
    expired = {one["subject"]: set(one["ledgers"]) for one in found if one["kind"] == "unloaded-expired"}
    del ledgers["unloaded-expired"]
    assert expired == {state.topic: set(state.expired) for state in made.expired if state.expired}
    assert ledgers == {
        "orphan-ledger": {*orphans.ledgers, *made.crash.ledgers},
        "orphan-cursor-ledger": {orphans.cursor_ledger},
        "orphan-schema-ledger": {orphans.schema_ledger},
        "flagged-deleted": {orphans.flagged},
        "lost-ledger": {orphans.absent},
        "lost-objects": {orphans.flagged},
        "truncated-offload": {half["complete"]},
        "failed-offload": {half[state] for state in ("prepared", "data", "both")},
    }


def test_nothing_but_reads_was_ever_sent(live: LiveCluster, made: Made) -> None:
    live.require_only_reads()
    assert sum(live.requests().values()) > 1000


def _findings(live: LiveCluster, *options: str) -> list[dict[str, Any]]:
    """Run the command in a process of its own, with a grace of seconds; return what it finds."""
    command = [_LEDGERFS, "cluster", "check", live.url, "--json", "--grace", f"{_GRACE_S}s", "--pass-seconds", "2"]
    bucket = ["--bucket", f"s3://{BUCKET}", "-O", f"endpoint_url={live.s3.endpoint}"]
    keeps = ["--broker-retention-minutes", "-1", "--broker-retention-megabytes", "-1"]
    done = subprocess.run(
        [*LEASH, *command, *bucket, *keeps, *options], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode in {0, 1, 3}, f"{done.returncode}\n{done.stdout}{done.stderr}"
    found: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    return found


def _ledgers_ever_made(nodes: KazooClient) -> int:
    """Return how many ids of ledgers were given out: for each a node is made below this one, and deleted."""
    made: int = nodes.get("/ledgers/idgen")[1].cversion // 2
    return made
