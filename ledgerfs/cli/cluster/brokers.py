"""The option --admin: brokers are asked which bundles they own, where ZooKeeper does not have that."""

from functools import wraps
from typing import TYPE_CHECKING, Any, cast

import click

from ledgerfs.cli.cluster.scheme import SCHEME
from ledgerfs.cli.schemas.broker_options import ACCESS, admin_requests, broker_options
from ledgerfs.cli.traffic_options import Command

if TYPE_CHECKING:
    from collections.abc import Callable

    from ledgerfs.clusters.survey import Survey
    from ledgerfs.storage.admin_api.admin_requests import AdminRequests


def admin_option(command: Command) -> Command:
    """Add --admin with its token and certificates; the command, which has ``source``, gets ``brokers``: requests, or None without it."""

    @wraps(command)
    def run(*arguments: object, admin: str | None, **options: Any) -> None:  # noqa: ANN401
        access = {name: options.pop(name) for name in ACCESS}
        brokers = None
        if admin is not None:
            if not options["source"].startswith(SCHEME):
                raise click.UsageError(
                    "a dump is of some time ago, and brokers tell what is now: --admin is for clusters"
                )
            brokers = admin_requests(admin, **access)
        cast("Callable[..., None]", command)(*arguments, brokers=brokers, **options)

    asked = click.option(
        "--admin", metavar="URL",
        help="A broker's web service, http://host:8080. Brokers are asked which bundles they own, if ZooKeeper does not have that "
        "(extensible load manager); that loads no topic.",
    )  # fmt: skip
    return asked(broker_options(cast("Command", run)))


def with_owners(survey: "Survey", brokers: "AdminRequests | None") -> "Survey":
    """Return a survey with the owners that brokers tell; the same one if none are to be asked."""
    if brokers is None:
        return survey
    # This imports numpy, which --help does not need.
    from ledgerfs.clusters.asked_brokers import ask_brokers

    return ask_brokers(survey, brokers)
