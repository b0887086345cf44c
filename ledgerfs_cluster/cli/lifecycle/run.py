"""``ledgerfs lifecycle run``: carry out a policy, repeatedly."""

import logging
import signal
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import click

from ledgerfs.cli.commands import command
from ledgerfs.cli.output import progress, say
from ledgerfs_cluster.cli.cluster.source import access_options, bookies_of, opened_cluster
from ledgerfs_cluster.cli.end_signals import at_end_signals
from ledgerfs_cluster.cli.lifecycle.policy import Policy, policy_argument

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ledgerfs_cluster.lifecycle.service.service import Service


@command()
@policy_argument
@access_options
@click.option("--once", is_flag=True, help="Do what is due now, wait for the offloads that this starts, and exit.")
@click.option("--yes", is_flag=True, help="Do not ask; required without a terminal.")
@click.option(
    "--pass-seconds", type=click.FloatRange(min=0), default=5, show_default=True, metavar="NUMBER",
    help="Seconds between the two checks for orphans, if POLICY deletes them.",
)  # fmt: skip
@click.pass_context
def run(
    context: click.Context,
    /,
    *,
    policy: Policy,
    zk_rate: float,
    no_bookies: bool,
    once: bool,
    yes: bool,
    pass_seconds: float,
) -> None:
    """Run the lifecycle of a cluster by a policy.

    Offloads ledgers, has brokers trim, and deletes orphans, until it is stopped. It never removes a listed ledger itself: it
    requests trimming from a broker (--admin), also for topics that are not loaded. `ledgerfs lifecycle plan` shows the actions;
    docs/operating/lifecycle.md explains them.

    A lock in ZooKeeper keeps a second service out. Ctrl-C and SIGTERM stop it cleanly: copies under way are abandoned, finished
    ones are committed. After a kill the next service resumes from the records in the cluster. An edited POLICY takes effect when it
    is valid and unchanged for 5 seconds. SIGHUP does not stop a service without a terminal.

    Exit code 0: stopped by Ctrl-C or SIGTERM, or --once is done; 1: --once had errors, or a copy could not be committed; 3: the
    lock is held by another service or was lost, ZooKeeper does not answer, or POLICY was edited during --once.

    \b
    Examples:
      ledgerfs lifecycle run policy.toml --once --yes    # after a look at what `ledgerfs lifecycle plan policy.toml` shows
      ledgerfs lifecycle run policy.toml --yes           # as a service; docs/operating/lifecycle.md has a unit for systemd
      ledgerfs lifecycle run policy.toml --admin http://broker:8080 --token-file token.txt --yes
    """
    if policy.is_dump:
        raise click.UsageError("a dump is read-only: pass the live cluster, --cluster pulsar+zk://host:port")
    if not yes:
        _ask(policy)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    logging.getLogger("kazoo").setLevel(logging.WARNING)
    opened: Policy | None = policy
    while opened is not None:
        opened = _serve(context, opened, zk_rate, pass_seconds, no_bookies=no_bookies, once=once)


def _serve(
    context: click.Context, policy: Policy, zk_rate: float, pass_seconds: float, *, no_bookies: bool, once: bool
) -> Policy | None:
    """Run a service until it stops; return the next one's policy if the file was edited, else None."""
    # These import numpy, numba and kazoo, which --help does not need.
    from ledgerfs_cluster.lifecycle.service.making import service_of

    cluster = opened_cluster(context, policy.source, zk_rate)
    bookies = bookies_of(cluster, no_bookies=no_bookies)
    reopen = None if once else policy.reopen
    try:
        with (
            service_of(policy.file, cluster, bookies, policy.brokers, pass_seconds, reopen=reopen) as service,
            _at_signals(lambda: _stop(service), once=once),
            progress() as update,
        ):
            service.run(update, once=once)
    finally:
        cluster.nodes.close()
    if once and service.refused:
        counts = ", ".join(f"{number:,} {code}" for code, number in service.refused.items())
        say(f"refused: {counts}; `ledgerfs lifecycle plan --all` lists the reasons")
    troubles = service.events.troubles()
    if service.has_given_up or (once and troubles):
        for one in troubles:
            say(f"not done: {one.text}")
        if not isinstance(service.reopened, Policy):
            context.exit(1)
    if not isinstance(service.reopened, Policy):
        return None
    say(f"{policy.file.path} was edited: the service now uses the new policy")
    return service.reopened


@contextmanager
def _at_signals(end: "Callable[[], object]", *, once: bool) -> "Iterator[None]":
    """Call ``end`` at signals that stop a command; a service without a terminal ignores SIGHUP: it checks POLICY continuously."""
    with at_end_signals(end):
        if not once and not sys.stdin.isatty() and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
            signal.signal(signal.SIGHUP, lambda *_: None)
        yield


def _ask(policy: Policy) -> None:
    if not sys.stdin.isatty():
        raise click.UsageError(
            "there is no terminal to confirm: pass --yes; `ledgerfs lifecycle plan` shows the work first"
        )
    click.confirm(
        f"Offload and trim ledgers of {policy.source} by {policy.file.path} (`ledgerfs lifecycle plan` lists them)?",
        abort=True,
        err=True,
    )


def _stop(service: "Service") -> None:
    service.stop()
    # The signal may arrive while another message is being printed.
    with suppress(RuntimeError):
        say("stopping: offloads that are already copied will be completed, no other work starts")
