"""Nothing that was acknowledged is lost, doubled or out of order, and nothing is left over, whatever fails during offloads and trims.

A minute of it; an hour with `python -m interop.chaos`.
"""

import base64
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop import chaos
from interop.java_client import JavaClient
from interop.keys import KeyPair
from interop.live_cluster import LiveCluster, lent_live_cluster
from interop.processes import LEASH
from interop.s3_server import BUCKET
from interop.stages import stage

_SEED = 20
_SECONDS = 60


@pytest.fixture(scope="module")
def live(folder: Path) -> Iterator[LiveCluster]:
    """The cluster."""
    with lent_live_cluster(folder / "chaos", chaos.BROKER) as made:
        yield made


def check(live: LiveCluster, outcome: chaos.Outcome) -> None:
    """Raise `AssertionError`, with what was done, if anything is lost, doubled, out of order, gone before its time, or left over."""
    history = "\n".join(f"{when:7.1f} {what}" for when, what in outcome.done)
    for topic, sent in outcome.sent.items():
        numbers = [int(base64.b64decode(one["value"])[:8]) for one in outcome.found[topic]]
        first = numbers[0] if numbers else sent
        assert numbers == list(range(first, sent)), f"{topic}: {numbers[:5]} … {numbers[-5:]} of {sent}\n{history}"
        if topic in chaos.topics(chaos.KEPT):
            assert first == 0, f"{topic} begins with {first}\n{history}"
        else:
            assert first <= outcome.acknowledged[topic], f"{topic} begins with {first}, unacknowledged\n{history}"
    gone = [
        outcome.watcher.seen[topic][one] for topic in chaos.topics(chaos.KEPT) for one in outcome.watcher.gone_ms[topic]
    ]
    # A broker that loads a topic forgets a last ledger that has no entries.
    assert [one for one in gone if one.entries] == [], history
    left = _orphans(live)
    assert left == [], f"{left}\n{history}"


def _orphans(live: LiveCluster) -> list[object]:
    """Return what the doctor calls an orphan of our topics, but for those of schemas, which brokers leave in health."""
    command = [chaos.LEDGERFS, "cluster", "check", f"pulsar+zk://{live.cluster.zookeeper}", "--json", "--grace", "1s"]
    command += ["--bucket", f"s3://{BUCKET}", "-O", f"endpoint_url={live.s3.endpoint}", "--pass-seconds", "3"]
    done = subprocess.run([*LEASH, *command], capture_output=True, text=True, timeout=900, check=False)
    assert done.stdout, done.stderr
    findings = json.loads(done.stdout)["findings"]
    mine = [one for one in findings if "chaos" in one["subject"] or one["kind"] == "orphan-object"]
    return [one for one in mine if one["loss"] or one["kind"] in {"orphan-ledger", "orphan-object", "flagged-deleted"}]


def test_nothing_is_lost_and_nothing_left_over(live: LiveCluster, classes: Path, keys: KeyPair, tmp_path: Path) -> None:
    reader = JavaClient(live.cluster, classes, keys)
    with stage("chaos"):
        outcome = chaos.play(live, reader, tmp_path, _SEED, _SECONDS)
    check(live, outcome)
    assert all(sent > 200 for sent in outcome.sent.values())
