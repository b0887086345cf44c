"""Check a cluster: list buckets, then ledgers, then owners; check suspects again some seconds later; report findings."""

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ledgerfs.errors import LedgerfsError
from ledgerfs.formats.array_types import Int64
from ledgerfs_cluster.check.suspects import Suspects, suspects_of
from ledgerfs_cluster.check.tier_findings import (
    LeftOut,
    broken_objects,
    lost_ids,
    lost_objects,
    orphan_objects,
    refused_objects,
    sound_ids,
)
from ledgerfs_cluster.check.tier_listing import Tier, listed_tier
from ledgerfs_cluster.errors import StoppedError
from ledgerfs_cluster.offload.journal import read_journal
from ledgerfs_cluster.rules.findings import Finding, in_order
from ledgerfs_cluster.rules.gone import gone_findings, unread_compactions
from ledgerfs_cluster.rules.loss import lost_findings, under_replicated, unequal_findings
from ledgerfs_cluster.rules.orphans import flagged_findings, orphan_findings, signs_of_sharing
from ledgerfs_cluster.rules.tiered_objects import TieredObjects, are_in, completely_offloaded, uuid_text
from ledgerfs_cluster.snapshot.answers import BookieReads
from ledgerfs_cluster.snapshot.next_ids import end_of_former_ids
from ledgerfs_cluster.snapshot.survey import DamagedNode, Survey
from ledgerfs_cluster.snapshot.surveying import Progress, look_again, survey_cluster
from ledgerfs_cluster.zookeeper.living_cluster import LivingCluster

GRACE_MS = 600_000
PASS_SECONDS = 5.0
_NOTED = "{} without an owner are recorded in the lifecycle journal; `ledgerfs lifecycle status` shows the journal"


@dataclass(frozen=True, slots=True)
class Rules:
    """Grace period and pause of a check.

    Attributes
    ----------
    grace_ms
        Objects and ledgers created or changed within so many ms are not judged: brokers need up to 60 s for a change, and retry.
    pass_s
        Seconds between the two checks.

    """

    grace_ms: int = GRACE_MS
    pass_s: float = PASS_SECONDS


@dataclass(frozen=True, slots=True)
class Check:
    """The result of a check.

    Attributes
    ----------
    survey
        The first snapshot, with the errors of both.
    passes
        Number of checks; 1 if nothing was suspect.
    findings
        Loss first, then by bytes.
    left_out
        Counts of objects that were not judged, with the reason, a sentence each: not lost, but maybe orphans, or stuck.
    unjudged
        Counts of ledgers that may be lost and were not judged, with the reason, a sentence each.
    signs
        Hints at other Pulsar clusters on the same BookKeeper, a sentence each: their ledgers look like orphans.

    """

    survey: Survey
    passes: int
    findings: list[Finding]
    left_out: list[str]
    unjudged: list[str]
    signs: list[str]

    @property
    def is_complete(self) -> bool:
        """Whether all possible losses were judged, and bookies answered: otherwise the absence of findings proves nothing."""
        return not (self.unjudged or self.survey.troubles)


@dataclass(frozen=True, slots=True)
class Looks:
    """Two checks of a cluster and its buckets.

    Attributes
    ----------
    survey
        The first snapshot.
    first, second
        Suspects of each check; ``second`` is None if the first found nothing to confirm.
    tiers
        The buckets that both checks listed, in the order of ``tiers`` of the suspects.

    """

    survey: Survey
    first: Suspects
    second: Suspects | None
    tiers: tuple[Tier, ...] = ()

    @property
    def sure(self) -> Suspects:
        """The suspects that both checks found."""
        return self.first if self.second is None else self.second.confirmed(self.first)


def look_twice(
    cluster: LivingCluster,
    bookies: BookieReads | None,
    tiers: Sequence[Tier],
    rules: Rules,
    progress: Progress,
    *,
    unlisted: dict[str, str] | None = None,
) -> Looks:
    """Check a cluster and its buckets, and check suspects again some seconds later; writes nothing.

    ``unlisted`` receives {URL: reason} of buckets that cannot be listed; these have no suspects. Raises as
    `ledgerfs_cluster.snapshot.surveying.survey_cluster`, and without ``unlisted`` the errors of listing buckets.
    """
    listed = _listed(tiers, progress, unlisted)
    listings = [found for _, found in listed]
    survey = survey_cluster(cluster, bookies, progress)
    ledgers_path = cluster.reading.ledgers_path
    former_ids = end_of_former_ids(cluster.nodes, ledgers_path)
    first = suspects_of(survey, listings, survey.began_ms, rules.grace_ms, former_ids=former_ids)
    if first.are_none:
        return Looks(survey, first, None, tuple(tier for tier, _ in listed))
    time.sleep(rules.pass_s)
    if first.are_in_tiers:
        listed = _listed([tier for tier, _ in listed], progress, unlisted)
        listings = [found for _, found in listed]
        urls = {one.url for one in listings}
        first = replace(first, tiers=tuple(one for one in first.tiers if one.objects.url in urls))
    second = look_again(cluster, first.ledger_ids, bookies, progress)
    former_ids = end_of_former_ids(cluster.nodes, ledgers_path)
    found = suspects_of(second, listings, survey.began_ms, rules.grace_ms, former_ids=former_ids)
    return Looks(survey, first, found, tuple(tier for tier, _ in listed))


def _listed(
    tiers: Sequence[Tier], progress: Progress, unlisted: dict[str, str] | None
) -> list[tuple[Tier, TieredObjects]]:
    """Return the buckets that can be listed, with their listings; raises errors of listing if ``unlisted`` is None."""
    found = []
    for one in tiers:
        try:
            found.append((one, listed_tier(one, progress)))
        except StoppedError:
            raise
        except LedgerfsError as error:
            if unlisted is None:
                raise
            unlisted[one.bucket.store.url] = error.reason
    # If several buckets are one place, and one of them was not listed, skip all of them.
    return [(tier, objects) for tier, objects in found if not unlisted or objects.url not in unlisted]


def check_cluster(
    cluster: LivingCluster, bookies: BookieReads | None, tiers: Sequence[Tier], rules: Rules, progress: Progress
) -> Check:
    """Check a cluster and its buckets twice; writes nothing. Raises as `look_twice`.

    Reads the journal of the lifecycle before the first check, since a record may be deleted together with the list that names its objects,
    and after the second, since orphans may be marked meanwhile.
    """
    journals = [read_journal(cluster.nodes)]
    looks = look_twice(cluster, bookies, tiers, rules, progress)
    journals.append(read_journal(cluster.nodes))
    damaged = {path: why for one in journals for path, why in one.unreadable.items()}
    survey, first, again, left_out = looks.survey, looks.first, looks.second, LeftOut()
    survey = replace(survey, damaged=[*survey.damaged, *(DamagedNode(*one) for one in damaged.items())])
    if again is None:
        said, unjudged = _left_out(first, left_out, rules), _unjudged(first, first)
        return Check(survey, 1, [], said, unjudged, signs_of_sharing(survey))
    # The only copy of a ledger must not be deleted: objects that either check missed count as incomplete.
    not_whole = np.union1d(lost_ids(first.tiers), lost_ids(again.tiers))
    names = {one.name for journal in journals for one in journal.records}
    noted = names | {path.rpartition("/")[2] for path in damaged}
    sure = _without_noted(looks.sure, noted, left_out)
    findings = in_order(_findings(sure, survey, tiers, left_out, not_whole))
    said, unjudged = _left_out(first, left_out, rules), _unjudged(first, sure)
    return Check(_with_unread(survey, again.survey), 2, findings, said, unjudged, signs_of_sharing(survey))


def _without_noted(sure: Suspects, noted: Collection[str], left_out: LeftOut) -> Suspects:
    """Return the suspects without those in the lifecycle's journal; ``noted`` are names of its records."""
    rows, tiers = sure.unnamed.rows, []
    is_marked = np.array([f"orphan-{row['ledger_id']}" in noted for row in rows], np.bool_)
    left_out[_NOTED.format("ledgers")] += int(is_marked.sum())
    for one in sure.tiers:
        names = [f"{row['ledger_id']}-{uuid_text(row)}" for row in one.unnamed]
        is_noted = np.array([not {f"attempt-{name}", f"objects-{name}"}.isdisjoint(noted) for name in names], np.bool_)
        left_out[_NOTED.format("offloads")] += int(is_noted.sum())
        tiers.append(replace(one, unnamed=one.unnamed[~is_noted]))
    return replace(sure, unnamed=replace(sure.unnamed, rows=rows[~is_marked]), tiers=tuple(tiers))


def _with_unread(first: Survey, second: Survey) -> Survey:
    """Return the first snapshot plus nodes that only the second could not read: suspects there were not confirmed."""
    paths, troubles = {one.path for one in first.damaged}, set(first.troubles)
    return replace(
        first,
        damaged=[*first.damaged, *(one for one in second.damaged if one.path not in paths)],
        troubles=[*first.troubles, *(one for one in second.troubles if one not in troubles)],
    )


def _counted(reasons: LeftOut) -> list[str]:
    return [f"{count:,} {why}" for why, count in reasons.items() if count]


def _grace(rules: Rules) -> str:
    return f"the grace period of {rules.grace_ms / 60_000:g} min (--grace)"


def _findings(
    sure: Suspects, first: Survey, tiers: Sequence[Tier], left_out: LeftOut, not_whole: Int64
) -> Iterator[Finding]:
    """Yield the findings of confirmed suspects; ``not_whole`` are the sorted ids of ledgers that lacked objects in either check."""
    survey, in_bookkeeper = sure.survey, first.ledgers["ledger_id"]
    yield from orphan_findings(survey, sure.unnamed.rows, is_shared=bool(signs_of_sharing(first)))
    yield from flagged_findings(survey, sure.flagged, not_whole, sound_ids(sure.tiers))
    yield from lost_findings(survey, sure.lost)
    yield from unequal_findings(survey, sure.unequal)
    yield from gone_findings(survey, sure.gone)
    yield from under_replicated(first, sure.missing_bookies)
    for tier, found in zip(tiers, sure.tiers, strict=True):
        yield from orphan_objects(replace(survey, clusters=first.clusters), tier, found, left_out)
        yield from broken_objects(survey, found, in_bookkeeper)
        yield from lost_objects(survey, found, in_bookkeeper)


def _unjudged(first: Suspects, sure: Suspects) -> list[str]:
    """Return possible losses that were not judged, with reasons; ``sure`` are the confirmed suspects."""
    refused = list(refused_objects(sure.tiers))
    more = f"; {len(refused) - 1:,} more objects" if len(refused) > 1 else ""
    named = [f"the store refuses access to objects of offloaded ledgers: {one}{more}" for one in refused[:1]]
    rest = LeftOut(
        {
            "offloaded ledgers are in buckets without a --bucket option: their objects were not checked; add these buckets": _elsewhere(
                first
            ),
            "compacted topics were not checked: the bookies with their cursor ledgers did not answer, or --no-bookies was set": (
                unread_compactions(first.survey)
            ),
        }
    )
    return [*named, *_counted(rest)]


def _left_out(first: Suspects, left_out: LeftOut, rules: Rules) -> list[str]:
    """Return possible orphans that were not judged, with reasons."""
    unnamed, minutes = first.unnamed, _grace(rules)
    young, former = (sum(getattr(one, name) for one in first.tiers) for name in ("young", "former"))
    reasons = LeftOut(
        {
            f"ledgers without an owner are younger than {minutes}, or changed within that time": unnamed.young,
            f"ledgers are marked as deleted but exist, in ledger lists that changed within {minutes}": first.flagged_young,
            "ledgers without a known owner may be in use: by a node that could not be read, an unknown kind of owner, or a running "
            "compaction": unnamed.unclear,
            f"unreferenced offloads are younger than {minutes}, or their age is unknown": young,
            "unreferenced offloads are older than a recovery into this cluster: they may be the only copy of a lost ledger": (
                former
            ),
        }
    )
    return [*_counted(reasons), *_counted(left_out)]


def _elsewhere(found: Suspects) -> int:
    """Return the number of offloaded ledgers that are in no listed bucket."""
    rows = completely_offloaded(found.survey)
    seen = np.zeros(rows.size, np.bool_)
    for one in found.tiers:
        seen |= are_in(found.survey, rows, one.objects)
    return int((~seen).sum())
