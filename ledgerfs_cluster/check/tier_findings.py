"""Findings about offloaded objects: orphans, and listed offloads with missing or damaged objects.

An object counts as an orphan only if it is not known to belong to another cluster: several may share a bucket.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ledgerfs.catalog.time_arguments import iso_time
from ledgerfs.formats.array_types import Int64
from ledgerfs.formats.pulsar_blob.user_metadata import OffloadUserMetadata
from ledgerfs.formats.topic_names import topic_of
from ledgerfs_cluster.check.suspects import TierSuspects
from ledgerfs_cluster.check.tier_listing import Tier, key_of, keys_of, reported_of
from ledgerfs_cluster.rules.findings import Finding, FindingKind
from ledgerfs_cluster.rules.ownership import DamagedOwners, is_in, known_topics
from ledgerfs_cluster.rules.tiered_objects import pair_keys
from ledgerfs_cluster.snapshot.survey import Survey
from ledgerfs_cluster.snapshot.tables import Table, parts_by

_SAMPLE = 16
"""Number of this cluster's offloads whose user metadata is read to learn the cluster's name."""
_RESTORE = "restore the objects under the same names, from an older object version, a backup or a copy"


LeftOut = Counter[str]
"""{description and reason: number of objects that were not judged}."""
_UNREADABLE = "unreferenced offloads may belong to ledger lists that could not be read"
_WHOSE = "unreferenced offloads have a cluster name in their user metadata, but the name of this cluster is unknown"
_OTHERS = "unreferenced offloads belong to another cluster, by their user metadata"


class OrphanObjects(NamedTuple):
    """An offload that no list names: its row of `PAIR`, its user metadata, and whether this cluster has its topic, if that is named."""

    row: np.void
    reported: OffloadUserMetadata
    is_known: bool


def orphan_pairs(survey: Survey, tier: Tier, found: TierSuspects, left_out: LeftOut) -> Iterator[OrphanObjects]:
    """Yield the offloads that no list names; count uncertain ones in ``left_out``."""
    if not found.unnamed.size:
        return
    known = known_topics(survey)
    ours, damaged = _own_name(survey, tier, found), DamagedOwners(survey).topics
    for row, reported in zip(found.unnamed, reported_of(tier, found.unnamed), strict=True):
        if reported is None:
            continue
        if damaged and (reported.managed_ledger is None or reported.managed_ledger in damaged):
            left_out[_UNREADABLE] += 1
        elif reported.cluster is not None and ours is None:
            left_out[_WHOSE] += 1
        elif reported.cluster not in {None, ours}:
            left_out[_OTHERS] += 1
        else:
            yield OrphanObjects(row, reported, reported.managed_ledger is None or reported.managed_ledger in known)


def orphan_objects(survey: Survey, tier: Tier, found: TierSuspects, left_out: LeftOut) -> Iterator[Finding]:
    """Yield a finding for each of `orphan_pairs`."""
    for row, reported, is_known in orphan_pairs(survey, tier, found, left_out):
        yield _orphan(row, reported, found.objects.url, is_known=is_known)


def lost_objects(survey: Survey, found: TierSuspects, in_bookkeeper: Int64) -> Iterator[Finding]:
    """Yield a finding for each topic whose complete offloads lack objects; ``in_bookkeeper`` are sorted ids."""
    kept = is_in(found.missing["ledger_id"], in_bookkeeper)
    for rows, is_kept in ((found.missing[kept], True), (found.missing[~kept], False)):
        for some in parts_by(rows, rows["topic"]):
            yield Finding(
                FindingKind.LOST_OBJECTS,
                topic_of(survey.topics[int(some["topic"][0])]),
                tuple(some["ledger_id"].tolist()),
                int(some["size"].sum()),
                int(some["offloaded_ms"].min()),
                f"the ledger list has these ledgers as offloaded, but {found.objects.url} lacks {_lacks(some, found)}; {_copy(is_kept)}",
                f"do not delete BookKeeper's copy; {_RESTORE}" if is_kept else _RESTORE,
            )


def broken_objects(survey: Survey, found: TierSuspects, in_bookkeeper: Int64) -> Iterator[Finding]:
    """Yield a finding for each ledger with incomplete or damaged objects, without those that the store refuses."""
    kept = is_in(found.broken["ledger_id"], in_bookkeeper).tolist()
    for row, why, is_kept in zip(found.broken, found.reasons, kept, strict=True):
        if _is_refused(row, found):
            continue
        yield Finding(
            FindingKind.TRUNCATED_OFFLOAD,
            topic_of(survey.topics[int(row["topic"])]),
            (int(row["ledger_id"]),),
            int(row["size"]),
            int(row["offloaded_ms"]),
            f"the ledger list has this ledger as offloaded, but {found.objects.url}/{key_of(row)} is incomplete or damaged: {why}; "
            f"{_copy(is_kept)}",
            f"do not delete BookKeeper's copy; {_RESTORE}" if is_kept else _RESTORE,
        )


def refused_objects(tiers: Sequence[TierSuspects]) -> Iterator[str]:
    """Yield the name of each listed offload with an object that the store refuses, and the reason: it may be complete."""
    for one in tiers:
        for row, why in zip(one.broken, one.reasons, strict=True):
            if _is_refused(row, one):
                yield f"{one.objects.url}/{key_of(row)}: {why}"


def _is_refused(row: np.void, found: TierSuspects) -> bool:
    return (int(row["uuid_high"]), int(row["uuid_low"]), int(row["ledger_id"])) in found.objects.refused


def _orphan(row: np.void, reported: OffloadUserMetadata, url: str, *, is_known: bool) -> Finding:
    keys = keys_of(row)
    what = " and ".join(keys)
    if reported.cluster is not None:
        whose = f"its user metadata has the name of this cluster, {reported.cluster}"
    else:
        whose = "its user metadata has no cluster name: if other clusters use the bucket, it may belong to one of them"
    if not is_known:
        whose += (
            "; this cluster has no such topic: the topic was deleted, or belongs to another cluster with the same name"
        )
    return Finding(
        FindingKind.ORPHAN_OBJECT,
        f"{url}/{keys[0]}",
        (int(row["ledger_id"]),),
        sum(max(0, int(row[name])) for name in ("data_size", "index_size")),
        int(row["modified_ms"]),
        f"no ledger list references this offload, last modified {iso_time(int(row['modified_ms']))}; {whose}",
        f"run the check again directly before, then delete {what} with the store's own client",
    )


def _lacks(rows: Table, found: TierSuspects) -> str:
    """Return a description of the missing objects, with the key of one ledger."""
    pairs = found.objects.pairs[np.isin(pair_keys(found.objects.pairs), pair_keys(rows))]
    half = " (one of its two objects exists)" if pairs.size else ""
    more = f" and of {rows.size - 1:,} more ledgers" if rows.size > 1 else ""
    return f"the objects of {key_of(rows[0])}{half}{more}"


def _copy(is_kept: bool) -> str:
    return "BookKeeper still has the ledger" if is_kept else "BookKeeper no longer has the ledger"


def _own_name(survey: Survey, tier: Tier, found: TierSuspects) -> str | None:
    """Return this cluster's name in user metadata; None if none is found, or several.

    Offloads that were copied here from another cluster name that one, so ZooKeeper's names count, too.
    """
    pairs = found.objects.pairs
    own = pairs[np.isin(pair_keys(pairs), pair_keys(found.offloaded))]
    spread = own[:: max(1, own.size // _SAMPLE)][:_SAMPLE]
    reported = {one.cluster for one in reported_of(tier, spread) if one is not None and one.cluster is not None}
    names = reported & survey.clusters if reported and survey.clusters else reported or survey.clusters
    return next(iter(names)) if len(names) == 1 else None


def sound_ids(tiers: Sequence[TierSuspects]) -> Int64:
    """Return the sorted ids of ledgers whose objects exist and are complete."""
    seen = _ids(one.offloaded for one in tiers)
    return seen[~is_in(seen, lost_ids(tiers))]


def lost_ids(tiers: Sequence[TierSuspects]) -> Int64:
    """Return the sorted ids of ledgers whose objects are missing or damaged."""
    return _ids(rows for one in tiers for rows in (one.missing, one.broken))


def _ids(tables: Iterable[Table]) -> Int64:
    found = [one["ledger_id"] for one in tables]
    return np.unique(np.concatenate(found)) if found else np.empty(0, np.int64)
