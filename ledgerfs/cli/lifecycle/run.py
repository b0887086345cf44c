"""``ledgerfs lifecycle run``: doing what a policy wants, again and again."""

import logging
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from ledgerfs.cli.cluster.source import access_options, bookies_of, opened_cluster
from ledgerfs.cli.commands import command
from ledgerfs.cli.end_signals import at_end_signals
from ledgerfs.cli.lifecycle.policy import Policy, policy_argument
from ledgerfs.cli.output import progress, say

if TYPE_CHECKING:
    from ledgerfs.lifecycle.service.service import Service


@command()
@policy_argument
@access_options
@click.option("--once", is_flag=True, help="Do what is due now, wait for the offloads that this begins, and end.")
@click.option("--yes", is_flag=True, help="Do it without asking; needed where nobody can answer.")
@click.option(
    "--pass-seconds", type=click.FloatRange(min=0), default=5, show_default=True, metavar="NUMBER",
    help="How many seconds lie between the two looks for orphans, if POLICY wants these deleted.",
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
    """Offload, and have brokers trim, what POLICY wants; keep doing it.

    ledgerfs never removes a ledger that a topic lists: it asks a broker (--admin) to trim, also topics that are not loaded. It deletes only
    what nothing lists.

    What is done, in which order, and what `ledgerfs lifecycle plan` shows of it: docs/operating/lifecycle.md. One service works at a time:
    a lock in ZooKeeper keeps a second one out. Ctrl-C, SIGTERM and SIGHUP end it: what is being copied is given up, what is copied is
    completed, and nothing is left half done. If it is killed, the next one goes on from what is noted in the cluster. It ends in the same
    way once POLICY is edited, before it deletes anything by what was there before: start it again.

    Exit code 0 after Ctrl-C, SIGTERM, or all of --once; 1 if --once met trouble, or nodes that could not be read, or if what was copied
    could not be completed; 3 if POLICY was edited, if the lock is another's or was lost, or if ZooKeeper does not answer.

    \b
    Examples:
      ledgerfs lifecycle run policy.toml --once --yes    # after a look at what `ledgerfs lifecycle plan policy.toml` shows
      ledgerfs lifecycle run policy.toml --yes           # as a service; docs/operating/lifecycle.md has a unit for systemd
      ledgerfs lifecycle run policy.toml --admin http://broker:8080 --token-file token.txt --yes
    """
    if policy.is_dump:
        raise click.UsageError("a dump cannot be changed: name the cluster, pulsar+zk://host:port")
    if not yes:
        _ask(policy)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    logging.getLogger("kazoo").setLevel(logging.WARNING)
    # These import numpy, numba and kazoo, which --help does not need.
    from ledgerfs.lifecycle.service.making import service_of

    cluster = opened_cluster(context, policy.source, zk_rate)
    bookies = bookies_of(cluster, no_bookies=no_bookies)
    try:
        with service_of(policy.file, cluster, bookies, policy.brokers, pass_seconds) as made:
            with at_end_signals(lambda: _stop(made.service)), progress() as update:
                made.service.run(update, once=once)
            troubles, has_given_up = made.events.troubles(), made.service.has_given_up
    finally:
        cluster.nodes.close()
    if once and made.service.refused:
        counts = ", ".join(f"{number:,} {code}" for code, number in made.service.refused.items())
        say(f"must not be done: {counts}; `ledgerfs lifecycle plan --all` tells why")
    if has_given_up or (once and troubles):
        for one in troubles:
            say(f"not done: {one.text}")
        if made.events.forgotten:
            say(f"{made.events.forgotten:,} more troubles are in the log above")
        context.exit(1)


def _ask(policy: Policy) -> None:
    if not sys.stdin.isatty():
        raise click.UsageError(
            "--yes is needed where nobody can answer; `ledgerfs lifecycle plan` shows what would be done"
        )
    click.confirm(
        f"Offload and trim ledgers of {policy.source} as {policy.file.path} wants (`ledgerfs lifecycle plan` shows which)?",
        abort=True,
        err=True,
    )


def _stop(service: "Service") -> None:
    service.stop()
    # The signal may have come while something else was being said.
    with suppress(RuntimeError):
        say("ending: what is copied is completed, and nothing is begun any more")
