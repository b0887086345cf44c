"""``ledgerfs cluster check``: orphans in a cluster, and lost data."""

from typing import TYPE_CHECKING, Any

import click

from ledgerfs.catalog.time_arguments import iso_time
from ledgerfs.cli.commands import command
from ledgerfs.cli.group import conclude
from ledgerfs.cli.options import json_option, parsed_options
from ledgerfs.cli.output import minute, print_json, progress, say
from ledgerfs.cli.parameter_types import Duration
from ledgerfs.display import human_size, printable
from ledgerfs_cluster.cli.cluster.source import (
    bookies_of,
    ledgers_text,
    opened_cluster,
    say_not_known,
    source_argument,
)
from ledgerfs_cluster.cli.rows import print_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ledgerfs_cluster.check.check import Check, Rules
    from ledgerfs_cluster.check.tier_listing import Tier
    from ledgerfs_cluster.rules.findings import Finding


def _parsed(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> dict[str, Any]:
    return parsed_options(values)


@command()
@source_argument
@click.option(
    "--bucket", "buckets", multiple=True, metavar="URL",
    help="A bucket that the cluster offloads to, such as s3://tier; may be repeated.",
)  # fmt: skip
@click.option(
    "-O", "--bucket-option", "bucket_options", multiple=True, metavar="KEY=VALUE", callback=_parsed,
    help="As -o, for the buckets.",
)  # fmt: skip
@click.option(
    "--grace", type=Duration(), default="10m", show_default=True, metavar="TIME",
    help="Do not judge ledgers and objects that changed within this time.",
)  # fmt: skip
@click.option(
    "--pass-seconds", type=click.FloatRange(min=0), default=5, show_default=True, metavar="NUMBER",
    help="Seconds between the two checks.",
)  # fmt: skip
@json_option
@click.pass_context
def check(
    context: click.Context,
    /,
    *,
    source: str,
    zk_rate: float,
    no_bookies: bool,
    buckets: tuple[str, ...],
    bucket_options: dict[str, Any],
    grace: float,
    pass_seconds: float,
    as_json: bool,
) -> None:
    """Find ledgers and objects without an owner, and lost data.

    CLUSTER is pulsar+zk://host:port,host:port[/chroot]. The check finds ledgers without an owner, ledgers that were deleted and
    still exist, objects of --bucket that no ledger list contains, listed ledgers that do not exist, offloads whose objects are
    missing or broken, and ledgers on unavailable bookies. A second check confirms each finding.

    Exit code 0: no loss, perhaps other findings; 1: loss, or damaged nodes; 3: no loss was found, but some parts could not be
    judged.

    \b
    Examples:
      ledgerfs cluster check pulsar+zk://zk1:2181,zk2:2181
      ledgerfs cluster check pulsar+zk://zk1:2181 --bucket s3://tier -O endpoint_url=http://minio:9000
      ledgerfs cluster check pulsar+zk://zk1:2181 --json | jq '.findings[] | select(.loss)'
    """
    # These import numpy, which --help does not need.
    from ledgerfs_cluster.check.check import Rules

    rules = Rules(round(grace * 1000), pass_seconds)
    done = _checked(context, source, rules, (zk_rate, no_bookies), (buckets, bucket_options))
    if as_json:
        print_json(_as_json(done, rules))
    else:
        print_rows(done.findings, _COLUMNS, ("bytes",), as_json=False)
    _say_result(source, done)
    say_not_known(context, done.survey, 0)
    conclude(context, is_sound=not _losses(done), is_complete=done.is_complete)


def _checked(
    context: click.Context,
    source: str,
    rules: "Rules",
    access: tuple[float, bool],
    tiers: tuple[tuple[str, ...], dict[str, Any]],
) -> "Check":
    """Check a cluster; ``access`` contains --zk-rate and --no-bookies, ``tiers`` URLs and options of buckets."""
    from ledgerfs_cluster.check.check import check_cluster

    (zk_rate, no_bookies), (urls, options) = access, tiers
    cluster = opened_cluster(context, source, zk_rate)
    try:
        opened = _opened_tiers(urls, {**cluster.reading.bucket_options, **options}, cluster.reading.bucket_urls)
        with progress() as update:
            return check_cluster(cluster, bookies_of(cluster, no_bookies=no_bookies), opened, rules, update)
    finally:
        cluster.nodes.close()


def _losses(done: "Check") -> int:
    return sum(one.kind.is_loss for one in done.findings)


_COLUMNS: "dict[str, Callable[[Finding], str]]" = {
    "what": lambda one: f"LOSS {one.kind.value}" if one.kind.is_loss else one.kind.value,
    "where": lambda one: printable(one.subject),
    "ledgers": lambda one: ledgers_text(one.ledger_ids),
    "bytes": lambda one: "?" if one.size < 0 else human_size(one.size),
    "since": lambda one: minute(one.since_ms or None),
    "seen": lambda one: printable(one.evidence),
    "mend": lambda one: printable(one.mend),
}


def _say_result(source: str, done: "Check") -> None:
    """Print the number of findings, the scope of the check, and what was not judged."""
    loss = _losses(done)
    freed = sum(max(0, one.size) for one in done.findings if not one.kind.is_loss)
    lost = f"{loss:,} findings of loss" if loss else "no loss" if done.is_complete else "no loss found"
    if not done.is_complete:
        lost += ", but some parts could not be checked"
    rest = len(done.findings) - loss
    ledgers, topics = f"{done.survey.ledgers.size:,} ledgers", f"{len(done.survey.topics):,} topics"
    say(
        f"{source}: {lost}; {rest:,} other findings, {human_size(freed)} can be freed; {ledgers} of {topics} were checked"
    )
    if any(one.kind.is_orphan_of_bookkeeper for one in done.findings):
        for line in done.signs:
            say(
                f"CAUTION: other Pulsar clusters may store ledgers in this BookKeeper, which look like orphans here: {line}"
            )
    for line in (*done.unjudged, *done.left_out):
        say(f"not checked: {line}")


def _as_json(done: "Check", rules: "Rules") -> dict[str, Any]:
    return {
        "source": done.survey.source,
        "read": iso_time(done.survey.read_ms),
        "looks": done.passes,
        "grace_seconds": rules.grace_ms / 1000,
        "ledgers": int(done.survey.ledgers.size),
        "topics": len(done.survey.topics),
        "findings": [
            {
                "kind": one.kind.value,
                "loss": one.kind.is_loss,
                "subject": one.subject,
                "ledgers": list(one.ledger_ids),
                "bytes": None if one.size < 0 else one.size,
                "since": iso_time(one.since_ms or None),
                "evidence": one.evidence,
                "mend": one.mend,
            }
            for one in done.findings
        ],
        "complete": done.is_complete,
        "not_judged": [*done.unjudged, *done.left_out],
        "signs_of_sharing": done.signs,
        "not_known": list(done.survey.troubles),
        "damaged_nodes": [{"path": one.path, "reason": one.reason} for one in done.survey.damaged],
    }


def _opened_tiers(urls: "Iterable[str]", options: "Mapping[str, Any]", elsewhere: "Mapping[str, str]") -> "list[Tier]":
    """Open buckets; ``elsewhere`` is {name in the cluster's metadata: URL} for renamed buckets."""
    # These import numpy and fsspec, which --help does not need.
    from ledgerfs.bucket.opening import open_bucket
    from ledgerfs_cluster.check.tier_listing import Tier

    found = []
    for url in urls:
        names = {_name_in(url), *(name for name, place in elsewhere.items() if place.rstrip("/") == url.rstrip("/"))}
        found.append(Tier(open_bucket(url, options), frozenset(names), options.get("endpoint_url")))
    return found


def _name_in(url: str) -> str:
    """Return the bucket's name from its URL; for a local folder, the folder's name."""
    scheme, separator, rest = url.rpartition("://")
    is_folder = not separator or scheme.rpartition("::")[2] in {"file", "local"}
    if is_folder:
        return rest.rstrip("/").rpartition("/")[2]
    name, _, path = rest.partition("/")
    if path:
        # Ledgers beside this folder would seem to be lost.
        raise click.BadParameter(
            f"{url!r} is a folder in a bucket, but brokers offload to the top of the bucket: use {scheme}://{name}"
        )
    return name
