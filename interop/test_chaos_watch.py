"""What the chaos says of things that go before their time, by what was seen."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from interop.chaos_watch import Watcher
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import LedgerInfo, OffloadContext
from ledgerfs_cluster.offload.journal import JournalRecord, RecordKind

if TYPE_CHECKING:
    from interop.live_cluster import LiveCluster

_UUID = "0b9a4a3c-7a5c-4b5f-9d4e-6a1f3c2d1e0f"
_CONTEXT = OffloadContext(_UUID, True, True, 5_000, "aws-s3")


def watcher(
    *infos: LedgerInfo, gone_ms: Mapping[int, int] | None = None, copies_gone_ms: Mapping[int, int] | None = None
) -> Watcher:
    """Return what has seen ledgers of topic ``t`` listed, and gone."""
    # Nothing is looked at any more.
    nothing = cast("LiveCluster", None)
    seen = {"t": {one.ledger_id: one for one in infos}}
    return Watcher(nothing, seen, {"t": dict(gone_ms or {})}, dict(copies_gone_ms or {}))


def marked(seen: Watcher, kind: RecordKind) -> Watcher:
    uuid, bucket = (None, None) if kind is RecordKind.ORPHAN else (_UUID, "s3://tier")
    record = JournalRecord(kind, 7, "t", uuid, bucket, "old", 1, 10, 1_000, 3_000)
    seen.marked[record.path], seen.marked_ms[record.path] = record, 1_000
    return seen


def test_a_copy_that_is_gone_within_the_lag_or_was_never_offloaded_is_reported() -> None:
    offloaded, only_copy = LedgerInfo(7, 60, 100, 4_000, _CONTEXT), LedgerInfo(8, 60, 100, 4_000)
    assert watcher(offloaded, only_copy, copies_gone_ms={7: 8_000}).copies_gone_early(["t"], 3_000) == []
    reported = watcher(offloaded, only_copy, copies_gone_ms={7: 7_999, 8: 99_000}).copies_gone_early(["t"], 3_000)
    assert [one.split(": ")[1] for one in reported] == [
        "ledger 7 is gone 2999 ms after its offload",
        "ledger 8 is gone from BookKeeper, and not offloaded",
    ]


def test_what_is_deleted_within_its_grace_is_reported() -> None:
    assert marked(watcher(copies_gone_ms={7: 3_000}), RecordKind.ORPHAN).marked_gone_early(2_000) == []
    reported = marked(watcher(copies_gone_ms={7: 2_999}), RecordKind.ORPHAN).marked_gone_early(2_000)
    assert reported == ["orphan-7 is gone 1999 ms after it was marked"]
    assert marked(watcher(copies_gone_ms={7: 2_999}), RecordKind.ORPHAN).marked_gone_early(2_000, {7}) == []
    seen = marked(watcher(copies_gone_ms={7: 1_001}), RecordKind.OBJECTS)
    seen.objects_gone_ms[f"{_UUID}-ledger-7"] = 3_000
    assert seen.marked_gone_early(2_000) == []
    seen.objects_gone_ms[f"{_UUID}-ledger-7"] = 2_999
    assert seen.marked_gone_early(2_000) == [f"objects-7-{_UUID} is gone 1999 ms after it was marked"]


def test_a_ledger_that_is_trimmed_within_its_retention_is_reported() -> None:
    closed = LedgerInfo(7, 60, 100, 4_000)
    assert watcher(closed, gone_ms={7: 64_000}).trimmed_early(["t"], 60_000) == []
    reported = watcher(closed, gone_ms={7: 63_999}).trimmed_early(["t"], 60_000)
    assert reported == ["t: ledger 7 is gone 59999 ms after it was closed"]
    assert watcher(LedgerInfo(7, 0, 0, 4_000), gone_ms={7: 4_001}).trimmed_early(["t"], 60_000) == []
