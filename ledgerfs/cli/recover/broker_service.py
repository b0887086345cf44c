"""Where brokers are asked for entries: --service, or what the new cluster tells of itself."""

from typing import TYPE_CHECKING, Any

import click

from ledgerfs.cli.schemas.broker_options import token_of
from ledgerfs.cli.traffic_options import Command

if TYPE_CHECKING:
    from ledgerfs.recovery.checking.broker_check import BrokerCheck
    from ledgerfs.recovery.copies.settled_copies import OpenAs
    from ledgerfs.storage.zookeeper.living_cluster import LivingCluster


def service_option(command: Command) -> Command:
    """Add --service."""
    option = click.option(
        "--service", metavar="URL",
        help="Where clients connect, pulsar://host:6650 or pulsar+ssl://host:6651.  [default: as the new cluster's metadata has it]",
    )  # fmt: skip
    return option(command)


def broker_check(
    cluster: "LivingCluster", admin: str, options: dict[str, Any], open_as: "OpenAs", *, sample: int | None
) -> "BrokerCheck":
    """Return what asks brokers for entries, with the same token and certificates as their admin API is asked with.

    Raises `InvalidOptionError` for an address that is none, or where the cluster tells none.
    """
    # These import ssl and numba, which --help does not need.
    from ledgerfs.recovery.checking.broker_check import BrokerCheck
    from ledgerfs.recovery.checking.service_address import service_address
    from ledgerfs.storage.admin_api.access import tls_context
    from ledgerfs.storage.broker_protocol.service import BrokerService

    url = options["service"] or service_address(cluster.nodes, has_tls=admin.startswith("https"))
    tls = tls_context(options["tls_ca"], options["tls_cert"], options["tls_key"])
    token = token_of(options["token"], options["token_file"])
    service = BrokerService.at(url, token, tls, has_certificate=options["tls_cert"] is not None)
    return BrokerCheck(service, sample, open_as, looks_for_transactions=not options["no_transactions"])
