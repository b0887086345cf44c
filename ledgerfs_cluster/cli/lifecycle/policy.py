"""The argument POLICY, and the options that override the file: cluster, broker, token."""

from dataclasses import dataclass, replace
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from ledgerfs.cli.parameter_types import LocalPath
from ledgerfs.cli.traffic_options import Command
from ledgerfs.errors import InvalidOptionError
from ledgerfs_cluster.cli.broker_options import admin_requests, broker_options
from ledgerfs_cluster.cli.cluster.source import SCHEME

if TYPE_CHECKING:
    from collections.abc import Callable

    from ledgerfs_cluster.lifecycle.policy.policy_file import PolicyFile
    from ledgerfs_cluster.pulsar_admin.admin_requests import AdminRequests

_OF_BROKERS = ("token", "token_file", "tls_ca", "tls_cert", "tls_key")


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy file with the options of the command line.

    Attributes
    ----------
    file
        Path of the file, as on the command line.
    source
        The URL of the cluster, or the file of a dump.
    brokers
        Requests to a broker; None without --admin.
    reopen
        Return the policy from the file's current contents; raises `InvalidOptionError` for an unusable file.

    """

    file: "PolicyFile"
    source: str
    brokers: "AdminRequests | None"
    reopen: "Callable[[], Policy]"

    @property
    def is_dump(self) -> bool:
        """Whether ``source`` is a dump, not a live cluster."""
        return not self.source.startswith(SCHEME)


def policy_argument(command: Command) -> Command:
    """Add POLICY, --cluster, --admin with token and certificates; the command gets ``policy``."""
    return _with_policy(command, is_required=True)


def policy_or_cluster(command: Command) -> Command:
    """Add the same with an optional POLICY: without it, brokers do all work by the cluster's own policies."""
    return _with_policy(command, is_required=False)


def _with_policy(command: Command, *, is_required: bool) -> Command:
    @wraps(command)
    def run(*arguments: object, policy: Path | None, cluster: str | None, admin: str | None, **options: Any) -> None:  # noqa: ANN401
        access = {name: options.pop(name) for name in _OF_BROKERS}
        cast("Callable[..., None]", command)(*arguments, policy=_opened(policy, cluster, admin, access), **options)

    decorated = broker_options(cast("Command", run))
    for add in (
        click.option(
            "--admin", metavar="URL",
            help="A broker's web service in place of POLICY's, http://host:8080. Planning does not use it.",
        ),
        click.option(
            "--cluster", metavar="CLUSTER",
            help="Cluster in place of POLICY's: pulsar+zk://host:port,host:port[/chroot], or a file of `ledgerfs cluster dump`.",
        ),
        click.argument("policy", metavar="POLICY" if is_required else "[POLICY]", type=LocalPath(), required=is_required),
    ):  # fmt: skip
        decorated = add(decorated)
    return decorated


def _opened(path: Path | None, cluster: str | None, admin: str | None, access: dict[str, Any]) -> Policy:
    # This imports numpy, which --help does not need.
    from ledgerfs_cluster.lifecycle.policy.policy_file import PolicyFile, Via, read_policy_file

    if path is None and cluster is None:
        raise click.UsageError("the cluster is missing: pass a POLICY file that contains it, or --cluster")
    file = PolicyFile(Path(), via=Via.BROKER) if path is None else read_policy_file(path)
    file = replace(file, cluster=cluster or _beside(file), admin=admin or file.admin)
    if file.cluster is None:
        raise click.UsageError(f"{path} does not contain a cluster: add the key cluster to the file, or pass --cluster")
    token_file = access["token_file"] or (file.token_file if admin is None else None)
    brokers = None if file.admin is None else admin_requests(file.admin, **{**access, "token_file": token_file})
    return Policy(file, file.cluster, brokers, partial(_opened_again, path, cluster, admin, access))


def _opened_again(path: Path | None, cluster: str | None, admin: str | None, access: dict[str, Any]) -> Policy:
    # This imports numpy, which --help does not need.
    from ledgerfs_cluster.lifecycle.policy.policy_file import require_settled

    if path is not None:
        require_settled(path)
    try:
        found = _opened(path, cluster, admin, access)
    except click.UsageError as error:
        raise InvalidOptionError(error.format_message(), key=str(path)) from error
    if found.is_dump:
        raise InvalidOptionError("a dump is read-only: set the cluster to pulsar+zk://host:port", key=str(path))
    return found


def _beside(file: "PolicyFile") -> str | None:
    """Return the cluster that a file names; a dump's path is relative to the file."""
    reported = file.cluster
    return reported if reported is None or "://" in reported else str(file.path.parent / reported)
