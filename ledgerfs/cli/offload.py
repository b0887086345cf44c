"""``ledgerfs offload``: the ledgers of a bucket into another one."""

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from ledgerfs.cli.command import command
from ledgerfs.cli.options import CODECS, bucket_argument, target_argument
from ledgerfs.cli.output import human_size, print_json, progress, say
from ledgerfs.cli.sizes import Size
from ledgerfs.formats.topic_names import topic_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ledgerfs.bucket.bucket import Bucket
    from ledgerfs.ledgers.catalog import Catalog
    from ledgerfs.ledgers.findings import Finding
    from ledgerfs.messages.transforms.entry_transform import EntryTransform
    from ledgerfs.writing.bucket_copy import CopiedLedger

_READ_BYTES = 64 << 20
"""What may be in memory of the source, half of it read ahead; the rest of half a GiB is for what is written."""

_NO_LEDGERS = frozenset({"unreadable-index", "index-without-data", "data-without-index"})


@command()
@bucket_argument
@target_argument
@click.option("--topic", "topics", multiple=True, help="Only this topic; may be repeated.")
@click.option("--block-size", type=Size(), help="Of the copies, such as 64MiB.  [default: as in the source]")
@click.option(
    "--if-exists",
    type=click.Choice(["skip", "fail", "new-copy"]),
    default="skip",
    show_default=True,
    help="What to do with a ledger that the target has.",
)
@click.option("--new-uuid", is_flag=True, help="Give copies names of their own, by which no broker finds them.")
@click.option(
    "--recompress", type=click.Choice(CODECS), help="Compress payloads anew; ids of messages stay what they are."
)
@click.option(
    "--unbatch",
    is_flag=True,
    help="One message an entry, in ledgers with ids that no cluster hands out; --recompress is then for what was a batch.",
)
@click.option(
    "--ledger-id",
    type=click.IntRange(min=0),
    help="With --unbatch: of the first copy, the others' follow.  [default: ids that no cluster hands out]",
)
@click.option("--no-check", is_flag=True, help="Do not read copies back.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: what became of each ledger.")
@click.pass_context
def offload(
    context: click.Context,
    /,
    bucket: "Bucket",
    target: "Bucket",
    *,
    topics: tuple[str, ...],
    as_json: bool,
    **options: Any,  # noqa: ANN401  (click's)
) -> None:
    """Copy the ledgers of BUCKET into TARGET, another bucket or a folder, and read the copies back.

    A broker that is pointed at the copy serves it: ledgers keep their names, and without --block-size they come out byte for byte. Run it
    again after an interruption: what is there, the same topic, id, last entry, length and creation, is skipped, but with --unbatch, which
    makes new ledgers each time. What is damaged, missing, contradictory, or another ledger in TARGET is named and not copied (exit code 1).

    \b
    Examples:
      ledgerfs offload s3://tier s3://tier-backup
      ledgerfs offload s3://tier /backup/tier --topic persistent://public/default/orders
      ledgerfs offload s3://tier s3://tier -O endpoint_url=https://other:9000 --block-size 64MiB
      ledgerfs offload s3://tier s3://archive --recompress zstd
    """
    is_renumbered, ledger_id = options["unbatch"], options["ledger_id"]
    if ledger_id is not None and not is_renumbered:
        raise click.UsageError("--ledger-id is for --unbatch; other copies keep the ids of their ledgers.")
    # numpy and numba, which these import, are not needed to help.
    from ledgerfs.cache.block_cache import process_cache
    from ledgerfs.writing.bucket_copy import CopyOptions, copy_ledgers, rows_to_copy
    from ledgerfs.writing.claims import IfExists
    from ledgerfs.writing.own_ids import new_own_id

    # What is read once is not worth keeping; parts on their way here and there are all that has to be in memory.
    process_cache.resize(min(process_cache.budget, _READ_BYTES))
    with progress() as update:
        catalog = bucket.refresh(update)
    wanted = [bucket.topic(topic).managed_ledger for topic in topics] if topics else None
    target.raw_store.writes.make_folder()
    if is_renumbered and ledger_id is None:
        ledger_id = new_own_id([catalog, target.refresh()], wanted)
    chosen = CopyOptions(
        block_size=options["block_size"],
        if_exists=IfExists(options["if_exists"]),
        new_uuid=options["new_uuid"],
        transform=_transform(options["unbatch"], options["recompress"]),
        first_ledger_id=ledger_id,
        check=not options["no_check"],
    )
    rows = rows_to_copy(catalog, wanted, all_copies=not (options["new_uuid"] or is_renumbered))
    tally = _Tally([] if as_json else None)
    with progress(in_bytes=True) as update:
        for one in copy_ledgers(bucket, target, rows, chosen, update, catalog=catalog):
            tally.add(one)
    for finding in _no_ledgers(bucket, catalog, wanted):
        tally.add_missing(finding)
    for managed_ledger in wanted or []:
        bucket.warn_of_unplaced(managed_ledger, catalog)
    if as_json:
        print_json(tally.told)
    else:
        click.echo(tally.summary(is_checked=chosen.check))
    if tally.counts["failed"]:
        context.exit(1)


@dataclass(slots=True)
class _Tally:
    """What became of the ledgers: each one where JSON is wanted, how many of each outcome, and bytes of entries that were copied."""

    told: list[dict[str, Any]] | None
    counts: Counter[str] = field(default_factory=Counter)
    size: int = 0

    def add(self, one: "CopiedLedger") -> None:
        """Count a ledger, and say why it failed."""
        self.counts[one.outcome.value] += 1
        self.size += one.source.length if one.outcome.value == "copied" else 0
        if one.error is not None:
            say(f"failed  ledger {one.source.ledger_id} of {one.source.topic}: {one.error}")
        if self.told is not None:
            self.told.append(_as_json(one))

    def add_missing(self, finding: "Finding") -> None:
        """Count and name what is left of a ledger that cannot be copied."""
        self.counts["failed"] += 1
        say(f"failed  {finding.key}: {finding.message}")
        if self.told is not None:
            self.told.append(_finding_as_json(finding))

    def summary(self, *, is_checked: bool) -> str:
        """Return all of it in a line."""
        checked = ", read back and whole" if is_checked else ""
        copied = f"ledgers copied: {self.counts['copied']:,} ({human_size(self.size)} of entries{checked})"
        return f"{copied}, there already: {self.counts['skipped']:,}, failed: {self.counts['failed']:,}"


def _transform(is_unbatched: bool, codec: str | None) -> "Callable[[], EntryTransform] | None":
    if not (is_unbatched or codec):
        return None
    from ledgerfs.messages.transforms.entry_transform import recompress, unbatch

    return partial(unbatch, codec or "none") if is_unbatched else partial(recompress, codec or "none")


def _no_ledgers(
    bucket: "Bucket", catalog: "Catalog", managed_ledgers: "list[str | None] | None"
) -> "Iterator[Finding]":
    """Yield what is left of ledgers of which there is no other copy; of some topics, what readers of them miss."""
    from ledgerfs.ledgers.findings import Finding, Severity
    from ledgerfs.ledgers.missing_ledgers import GapKind
    from ledgerfs.upkeep.verification.verify import check_listed

    wanted = catalog.managed_ledgers if managed_ledgers is None else managed_ledgers
    # Copies that contradict each other fail when they are to be copied.
    missing = {
        one.key: one for name in wanted for one in catalog.missing_of(name) if one.kind is not GapKind.CONTRADICTED
    }
    topics = {topic_of(name) for name in wanted}
    for finding in check_listed(bucket, catalog):
        is_wanted = managed_ledgers is None or finding.topic in topics or finding.key in missing
        if finding.kind in _NO_LEDGERS and finding.severity is not Severity.REMARK and is_wanted:
            known = missing.pop(finding.key or "", None)
            yield finding if known is None else replace(finding, topic=known.topic)
    for one in missing.values():
        yield Finding(Severity.DAMAGE, "missing-ledger", one.why, one.key, None, one.ledger_id, one.topic)


def _finding_as_json(finding: "Finding") -> dict[str, Any]:
    return {
        "topic": finding.topic,
        "ledger_id": finding.ledger_id,
        "uuid": None,
        "source_ledger_id": finding.ledger_id,
        "source_uuid": (finding.key or "").partition("-ledger-")[0],
        "outcome": "failed",
        "error": finding.message,
    }


def _as_json(one: "CopiedLedger") -> dict[str, Any]:
    return {
        "topic": one.source.topic,
        "ledger_id": one.ledger_id,
        "uuid": one.uuid,
        "source_ledger_id": one.source.ledger_id,
        "source_uuid": one.source.uuid,
        "outcome": one.outcome.value,
        "error": None if one.error is None else str(one.error),
    }
