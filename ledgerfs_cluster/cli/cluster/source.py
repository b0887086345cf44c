"""The argument CLUSTER and its options: a live cluster or a dump; warnings about unread parts, printed after the results."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from ledgerfs.cli.options import storage_option, storage_options_of
from ledgerfs.cli.output import progress, say
from ledgerfs.cli.traffic_options import Command

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ledgerfs_cluster.snapshot.answers import BookieReads
    from ledgerfs_cluster.snapshot.policies import BrokerDefaults
    from ledgerfs_cluster.snapshot.survey import Survey
    from ledgerfs_cluster.zookeeper.living_cluster import LivingCluster

SCHEME = "pulsar+zk://"
"""Prefix of a live cluster's URL; any other CLUSTER is a dump file."""
_MOST_LINES = 10
_MOST_LEDGERS = 3


def access_options(command: Command) -> Command:
    """Add the options for access to a cluster: -o, --zk-rate, --no-bookies."""
    for add in (
        click.option(
            "--no-bookies", is_flag=True,
            help="Ask ZooKeeper only: ends of open ledgers and positions of active cursors are then unknown.",
        ),
        click.option(
            "--zk-rate", type=click.FloatRange(min=1), default=5000, show_default=True, metavar="NUMBER",
            help="Most nodes to read from ZooKeeper in a second.",
        ),
        storage_option,
    ):  # fmt: skip
        command = add(command)
    return command


def source_argument(command: Command) -> Command:
    """Add the argument CLUSTER and its access options; the command gets ``source``, ``zk_rate`` and ``no_bookies``."""
    return click.argument("source", metavar="CLUSTER")(access_options(command))


def topic_option(command: Command) -> Command:
    """Add --topic and --all."""
    every = click.option("--all", "show_all", is_flag=True, help="List all, with reasons.")
    only = click.option("--topic", "topics", multiple=True, metavar="TOPIC", help="Only this topic; may be repeated.")
    return only(every(command))


def retention_options(command: Command) -> Command:
    """Add the broker's retention defaults."""
    for add in (
        click.option(
            "--broker-retention-megabytes", type=int, default=0, show_default=True, metavar="NUMBER",
            help="The brokers' defaultRetentionSizeInMB, for namespaces without a policy; -1 for no limit.",
        ),
        click.option(
            "--broker-retention-minutes", type=int, default=0, show_default=True, metavar="NUMBER",
            help="The brokers' defaultRetentionTimeInMinutes.",
        ),
    ):  # fmt: skip
        command = add(command)
    return command


def opened_cluster(context: click.Context, url: str, zk_rate: float) -> "LivingCluster":
    """Return the cluster at a URL, with the options of -o; raises as `cluster_at`."""
    return cluster_at(url, {"most_per_second": zk_rate, **storage_options_of(context)})


def cluster_at(
    url: str, options: Mapping[str, Any], *, flag: str = "-o", argument: str | None = None
) -> "LivingCluster":
    """Return the cluster at a URL; ``flag`` is the option with its options, ``argument`` the one with the URL.

    Raises `click.BadParameter` for other URLs, `UnusableUrlError` for a URL without servers, and `InvalidOptionError`.
    """
    if not url.startswith(SCHEME):
        raise click.BadParameter(
            f"{url!r} is not the URL of a cluster; expected {SCHEME}host:port,host:port[/chroot]", param_hint=argument
        )
    # These import fsspec and kazoo, which --help does not need.
    from ledgerfs.errors import InvalidOptionError
    from ledgerfs_cluster.zookeeper.filesystem import ClusterFileSystem

    try:
        return ClusterFileSystem(**options).cluster(url.removeprefix(SCHEME).rstrip("/"))
    except TypeError as error:
        raise InvalidOptionError(str(error).rpartition(") ")[2], key=flag) from error


def bookies_of(cluster: "LivingCluster", *, no_bookies: bool) -> "BookieReads | None":
    """Return a reader of the cluster's bookies; None with --no-bookies."""
    if no_bookies:
        return None
    # Imported here: numba, for the digests of entries.
    from ledgerfs_cluster.live_source.newest_entries import NewestEntries

    return NewestEntries(cluster.reading)


def surveyed(context: click.Context, source: str, zk_rate: float, *, no_bookies: bool) -> "Survey":
    """Return the snapshot of a cluster or of a dump."""
    # These import numpy and kazoo, which --help does not need.
    from ledgerfs_cluster.snapshot.surveying import survey_cluster, survey_dump

    with progress() as update:
        if not source.startswith(SCHEME):
            return survey_dump(source, update, storage_options_of(context))
        cluster = opened_cluster(context, source, zk_rate)
        try:
            bookies = bookies_of(cluster, no_bookies=no_bookies)
            return survey_cluster(cluster, bookies, update)
        finally:
            cluster.nodes.close()


def broker_defaults(*, broker_retention_minutes: int = 0, broker_retention_megabytes: int = 0) -> "BrokerDefaults":
    """Return the brokers' policies from `retention_options`."""
    from ledgerfs_cluster.snapshot.policies import BrokerDefaults, Retention

    return BrokerDefaults(Retention.of(broker_retention_minutes, broker_retention_megabytes))


def wanted_topics(survey: "Survey", topics: "Iterable[str]") -> frozenset[str]:
    """Return the managed ledgers of topics, with all partitions; raises `NotFoundError` for a topic that does not exist."""
    from ledgerfs.errors import NotFoundError
    from ledgerfs.formats.topic_names import managed_ledger_of, split_partition

    found: set[str] = set()
    for topic in topics:
        name = managed_ledger_of(topic)
        of_topic = {one for one in survey.topics if name in {one, split_partition(one)[0]}}
        if not of_topic:
            raise NotFoundError("the cluster has no topic with this name", key=topic)
        found |= of_topic
    return frozenset(found)


def say_not_known(context: click.Context, survey: "Survey", own_policies: int) -> None:
    """Print to standard error what was not read or could not be read; exit with code 1 if nodes are damaged."""
    if own_policies:
        say(
            f"{own_policies:,} topics may have other retention than shown: their topic policies (__change_events of the "
            "namespace) could not be read"
        )
    say_some("unknown: {}", survey.troubles)
    say_some("{}; skipped", [f"{node.path}: {node.reason}" for node in survey.damaged])
    if survey.damaged:
        context.exit(1)


def say_some(text: str, reasons: Sequence[str]) -> None:
    """Print the first reasons to standard error, and the number of the others."""
    for one in reasons[:_MOST_LINES]:
        say(text.format(one))
    if len(reasons) > _MOST_LINES:
        say(text.format(f"{len(reasons) - _MOST_LINES:,} more"))


def ledgers_text(ids: Sequence[int]) -> str:
    """Return the first ledgers, and the number of all."""
    if len(ids) <= _MOST_LEDGERS:
        return ", ".join(map(str, ids)) or "-"
    return f"{', '.join(map(str, ids[: _MOST_LEDGERS - 1]))}, … {ids[-1]} ({len(ids):,})"
