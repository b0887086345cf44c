"""Options to reach a broker: address, token and certificates."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ledgerfs.cli.parameter_types import LocalPath
from ledgerfs.cli.traffic_options import Command
from ledgerfs.errors import InvalidOptionError

if TYPE_CHECKING:
    from ledgerfs_cluster.pulsar_admin.admin_requests import AdminRequests

TOKEN_VARIABLE = "PULSAR_TOKEN"  # noqa: S105  (a name)
ACCESS = ("token", "token_file", "tls_ca", "tls_cert", "tls_key")
"""The options that `broker_options` adds."""
_MOST_TOKEN_BYTES = 1 << 20


def options(*adds: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Return a decorator that adds options and arguments to a command, in the order of the help."""

    def add(command: Command) -> Command:
        for one in reversed(adds):
            command = one(command)
        return command

    return add


broker_options = options(
    click.option(
        "--token", envvar=TOKEN_VARIABLE, show_envvar=True, metavar="TOKEN",
        help="Token for the broker. Other users of this machine can see it here, but not in the environment or a file.",
    ),
    click.option("--token-file", type=LocalPath(), metavar="FILE", help="File with the token."),
    click.option(
        "--tls-ca", type=LocalPath(), metavar="FILE",
        help="Certificates that sign the broker's, PEM.  [default: those of the system]",
    ),
    click.option(
        "--tls-cert", type=LocalPath(), metavar="FILE", help="Certificate of this client, PEM, if the broker requires one."
    ),
    click.option("--tls-key", type=LocalPath(), metavar="FILE", help="Key of --tls-cert, if that file does not contain it."),
)  # fmt: skip
"""Token and certificates, with the parameter names of `admin_requests`."""
broker_argument = options(click.argument("broker", metavar="BROKER"), broker_options)


def admin_requests(
    broker: str,
    *,
    token: str | None,
    token_file: Path | None,
    tls_ca: Path | None,
    tls_cert: Path | None,
    tls_key: Path | None,
) -> "AdminRequests":
    """Return requests to a broker; raises `InvalidOptionError`. A token file takes precedence over the environment."""
    # This imports ssl and fsspec, which --help does not need.
    from ledgerfs_cluster.pulsar_admin.admin_requests import AdminRequests, tls_context

    return AdminRequests(broker, token_of(token, token_file), tls_context(tls_ca, tls_cert, tls_key))


def token_of(token: str | None, token_file: Path | None) -> str | None:
    """Return the token; raises `InvalidOptionError`. A token file takes precedence over the environment."""
    return token if token_file is None else _token_in(token_file)


def _token_in(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return opened.read(_MOST_TOKEN_BYTES).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidOptionError(f"the token file cannot be read: {error}", key=str(file)) from error
