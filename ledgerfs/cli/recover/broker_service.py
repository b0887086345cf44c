"""Where topics are read back: --service, or what the new cluster tells of itself."""

from typing import TYPE_CHECKING, Any

import click

from ledgerfs.cli.schemas.broker_options import token_of
from ledgerfs.cli.traffic_options import Command

if TYPE_CHECKING:
    from ledgerfs.recovery.checking.broker_check import BrokerCheck
    from ledgerfs.storage.zookeeper.living_cluster import LivingCluster


def service_option(command: Command) -> Command:
    """Add --service."""
    option = click.option(
        "--service", metavar="URL",
        help="Where clients connect, pulsar://host:6650 or pulsar+ssl://host:6651.  [default: as the new cluster's metadata has it]",
    )  # fmt: skip
    return option(command)


def broker_check(
    context: click.Context,
    cluster: "LivingCluster",
    options: dict[str, Any],
    *,
    has_tls: bool,
    sample: int | None,
) -> "BrokerCheck":
    """Return what reads topics back, with the token and certificates of ``options``.

    The context closes its connections in the end. Raises `InvalidOptionError` for an address that is none, where the cluster tells none,
    and without ``pulsar-client``.
    """
    # These import numba, which --help does not need.
    from ledgerfs.recovery.checking.broker_check import BrokerCheck
    from ledgerfs.recovery.checking.pulsar_service import PulsarService, service_address

    url = options["service"] or service_address(cluster.nodes, has_tls=has_tls)
    token = token_of(options["token"], options["token_file"])
    service = PulsarService(url, token, options["tls_ca"], options["tls_cert"], options["tls_key"])
    context.call_on_close(service.close)
    return BrokerCheck(service, sample)
