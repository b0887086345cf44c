"""Nothing that was acknowledged is lost, doubled or out of order, and nothing is left over, whatever fails during offloads and trims.

A minute of it; an hour with `python -m interop.chaos`.
"""

import base64
import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interop import chaos
from interop.chaos_watch import deleted_by_brokers
from interop.java_client import JavaClient, Lines
from interop.keys import KeyPair
from interop.lasting_producer import LastingProducer
from interop.live_cluster import LiveCluster, lent_live_cluster
from interop.processes import LEASH
from interop.s3_server import BUCKET
from interop.service_steps import Step, uncleaned_attempts
from interop.stages import stage
from ledgerfs.formats.pulsar_blob.object_names import LedgerKey
from ledgerfs.formats.pulsar_blob.user_metadata import parse_user_metadata
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import parse_ledger_node
from ledgerfs_cluster.formats.bookkeeper.ledger_paths import ledger_path
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import LedgerInfo

_SEED = 20
_SECONDS = 60
_LEFT = frozenset(
    {
        *("orphan-ledger", "orphan-cursor-ledger", "orphan-schema-ledger", "orphan-compacted-ledger"),
        *("orphan-delayed-ledger", "orphan-object"),
    }
)
"""The doctor's words for what a lifecycle that has ended its work leaves nothing of."""


@pytest.fixture(scope="module")
def live(folder: Path) -> Iterator[LiveCluster]:
    """The cluster."""
    with lent_live_cluster(folder / "chaos", chaos.BROKER) as made:
        yield made


def check(live: LiveCluster, outcome: chaos.Outcome) -> None:
    """Raise `AssertionError`, with what was done, if anything is lost, doubled, out of order, gone before its time, or left over.

    What was done, and where kills hit, is printed before.
    """
    done = _what_was_done(live, outcome)
    hits = Counter(step for steps in outcome.chaos.kills for step in steps)
    for name, count in (*done.items(), *((f"kills {step.value}", hits[step]) for step in Step)):
        print(f"{count:7} {name}", flush=True)
    print(f"{len(outcome.chaos.kills):7} kills of the service in all", flush=True)
    print(f"{len(live.s3.unfinished_uploads()):7} unfinished uploads, of the service and of brokers", flush=True)
    _require_all_read(outcome)
    _require_in_time(outcome, deleted_by_brokers(live.cluster.processes.log("broker")))
    idle = [name for name, count in done.items() if not count]
    assert idle == [], f"nothing was {idle}\n{outcome.history}"
    if outcome.is_long:
        missed = [step.value for step in Step if not hits[step]]
        assert missed == [], f"no kill hit {missed}"
    left = _left(live, outcome)
    assert left == [], f"{left}\n{outcome.history}"


def _require_all_read(outcome: chaos.Outcome) -> None:
    for topic, numbers in _numbers(outcome.early).items():
        sent = outcome.sent[topic]
        assert numbers == list(range(sent)), f"before the unload {_reported(topic, numbers, sent)}\n{outcome.history}"
    for topic, numbers in _numbers(outcome.found).items():
        sent = outcome.sent[topic]
        first = numbers[0] if numbers else sent
        reported = f"{_reported(topic, numbers, sent)}\n{outcome.history}"
        assert numbers == list(range(first, sent)), reported
        # What a subscription has not acknowledged is kept, and all of a topic that keeps all.
        assert first <= outcome.acknowledged.get(topic, 0), reported


def _numbers(lines: Lines) -> dict[str, list[int]]:
    return {topic: [int(base64.b64decode(one["value"])[:8]) for one in some] for topic, some in lines.items()}


def _reported(topic: str, numbers: list[int], sent: int) -> str:
    return f"{topic}: {len(numbers)} messages, {numbers[:5]} … {numbers[-5:]} of {sent}"


def _require_in_time(outcome: chaos.Outcome, by_brokers: set[int]) -> None:
    watcher, kept = outcome.watcher, chaos.topics(chaos.KEPT)
    # A broker that loads a topic forgets a last ledger that has no entries.
    gone = [(one, watcher.seen[topic][one]) for topic in kept for one in watcher.gone_ms[topic]]
    assert [ledger_id for ledger_id, one in gone if one.entries] == [], outcome.history
    early = watcher.copies_gone_early(kept, chaos.LAG_S * 1000)
    early += watcher.marked_gone_early(chaos.GRACE_S * 1000, by_brokers)
    if outcome.is_long:
        early += watcher.trimmed_early(chaos.topics(chaos.BRIEF), chaos.RETENTION_S * 1000)
    assert early == [], f"{early}\n{outcome.history}"


def _what_was_done(live: LiveCluster, outcome: chaos.Outcome) -> dict[str, int]:
    """Return how often each thing was done that a run is to have done at least once."""
    watcher = outcome.watcher
    objects = live.s3.objects()
    kept = [one for topic in chaos.topics(chaos.KEPT) for one in watcher.seen[topic].values()]
    by = Counter(_writer(objects, one) for one in kept if one.is_offloaded)
    trimmed = sum(len(watcher.gone_ms[topic]) for topic in chaos.topics(chaos.PASSING))
    counts = {
        "ledgers offloaded by the service": by["service"],
        "ledgers offloaded by a broker": by["broker"],
        "copies deleted from BookKeeper, by their lists": sum(_is_deleted(one) for one in kept),
        "copies gone from BookKeeper": sum(one.ledger_id in watcher.copies_gone_ms for one in kept),
        "ledgers trimmed": trimmed,
        "looks of the watcher": watcher.looks,
        "attempts noted": len(watcher.attempts),
        "second services kept out": outcome.chaos.refused,
        "holders of the lock": len(watcher.locks),
    }
    if outcome.is_long:
        counts["second services that went on for a stopped one"] = outcome.chaos.taken_over
        counts["ledgers trimmed after a minute"] = sum(len(watcher.gone_ms[one]) for one in chaos.topics(chaos.BRIEF))
        counts["what nothing names, marked"] = len(watcher.marked)
    return counts


def _writer(objects: dict[str, dict[str, str]], one: LedgerInfo) -> str:
    """Return who wrote the objects of a ledger; raises `AssertionError` if there are none."""
    assert one.context is not None
    assert one.context.uuid is not None
    key = LedgerKey(one.context.uuid, one.ledger_id, is_index=False)
    missing = {key.data_key, key.index_key} - objects.keys()
    assert not missing, f"ledger {one.ledger_id} is offloaded, and {missing} is not there"
    version = parse_user_metadata(objects[key.data_key]).software_version or ""
    return "service" if version.startswith("ledgerfs") else "broker"


def _is_deleted(one: LedgerInfo) -> bool:
    return one.context is not None and one.context.is_deleted_from_bookkeeper


def _left(live: LiveCluster, outcome: chaos.Outcome) -> list[object]:
    """Return what is left over: what the doctor says of losses and orphans, uploads that were not ended, and notes of attempts."""
    command = [chaos.LEDGERFS, "cluster", "check", f"pulsar+zk://{live.cluster.zookeeper}", "--json", "--grace", "1s"]
    command += ["--bucket", f"s3://{BUCKET}", "-O", f"endpoint_url={live.s3.endpoint}", "--pass-seconds", "3"]
    done = subprocess.run([*LEASH, *command], capture_output=True, text=True, timeout=900, check=False)
    assert done.stdout, done.stderr
    findings = [one for one in json.loads(done.stdout)["findings"] if one["loss"] or one["kind"] in _LEFT]
    # What a broker did not close stays, and is told.
    left = [one for one in findings if not _is_brokers_own(one) and (one["loss"] or not _are_open(live, one))]
    # A broker that is killed leaves its uploads to the bucket's own rule, and no list tells them from those of another cluster's brokers.
    uploads = [key for key in live.s3.unfinished_uploads() if key.removesuffix("-index") in outcome.watcher.attempts]
    left += [f"an unfinished upload of {key}" for key in uploads]
    with live.unrecorded() as nodes:
        attempts, uncleaned = uncleaned_attempts(nodes)
    # A note stays for ten minutes after its objects went, for what was on its way to the store.
    notes = attempts if outcome.is_long else uncleaned
    return [*left, f"{notes} notes of attempts"] if notes else left


def _is_brokers_own(finding: dict[str, object]) -> bool:
    """Whether a finding is of what brokers leave of topics of their own, which no policy of ours names."""
    # Two brokers, one after the other, make a schema of the topic that tells their health, and one of them loses.
    return "chaos" not in str(finding["subject"]) and finding["kind"] == "orphan-schema-ledger"


def _are_open(live: LiveCluster, finding: dict[str, Any]) -> bool:
    """Whether a finding is of ledgers alone that BookKeeper does not call closed."""
    with live.unrecorded() as nodes:
        paths = [(one, ledger_path(one)) for one in finding["ledgers"]]
        data = [(one, nodes.get(path)[0] if nodes.exists(path) else None) for one, path in paths]
    return bool(data) and all(found and not parse_ledger_node(found, one, key="").is_closed for one, found in data)


def test_nothing_is_lost_and_nothing_left_over(live: LiveCluster, classes: Path, keys: KeyPair, tmp_path: Path) -> None:
    reader = JavaClient(live.cluster, classes, keys)
    with stage("chaos"):
        outcome = chaos.play(live, reader, tmp_path, _SEED, _SECONDS)
    check(live, outcome)
    assert all(sent > 200 for sent in outcome.sent.values())


def test_a_connection_that_is_given_up_costs_no_message_and_doubles_none(
    live: LiveCluster, classes: Path, keys: KeyPair
) -> None:
    live.cluster.admin.make_namespace("public/renewed")
    live.cluster.admin.set_retention("public/renewed", -1, -1)
    producer = LastingProducer(live.cluster.service_url, "persistent://public/renewed/topic", 500)
    for _ in range(5):
        producer.send(100)
        producer.renew()
    producer.wait(500)
    producer.close()
    found = JavaClient(live.cluster, classes, keys).read([producer.topic], 60)
    assert _numbers(found) == {producer.topic: list(range(500))}
