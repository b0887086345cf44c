"""Where clients connect: --service, or what the new cluster tells of itself."""

from typing import TYPE_CHECKING, Any

import click

from ledgerfs.cli.schemas.broker_options import ACCESS, admin_requests, token_of
from ledgerfs.cli.traffic_options import Command

if TYPE_CHECKING:
    from ledgerfs.recovery.checking.broker_check import BrokerCheck
    from ledgerfs.recovery.checking.pulsar_service import PulsarService
    from ledgerfs.storage.zookeeper.living_cluster import LivingCluster


def service_option(command: Command) -> Command:
    """Add --service."""
    option = click.option(
        "--service", metavar="URL",
        help="Where clients connect, pulsar://host:6650 or pulsar+ssl://host:6651.  [default: as the new cluster's metadata has it]",
    )  # fmt: skip
    return option(command)


def broker_check(admin: str, options: dict[str, Any], service: "PulsarService", *, sample: int | None) -> "BrokerCheck":
    """Return what reads topics back."""
    # This imports numba, which --help does not need.
    from ledgerfs.recovery.checking.broker_check import BrokerCheck

    return BrokerCheck(service, admin_requests(admin, **{name: options[name] for name in ACCESS}), sample)


def pulsar_service(
    context: click.Context, cluster: "LivingCluster", admin: str, options: dict[str, Any]
) -> "PulsarService":
    """Return the brokers as clients know them, with the same token and certificates as their admin API is asked with.

    The context closes its connections in the end. Raises `InvalidOptionError` for an address that is none, where the cluster tells none,
    and without ``pulsar-client``.
    """
    from ledgerfs.recovery.checking.pulsar_service import PulsarService, service_address

    url = options["service"] or service_address(cluster.nodes, has_tls=admin.startswith("https"))
    token = token_of(options["token"], options["token_file"])
    service = PulsarService(url, token, options["tls_ca"], options["tls_cert"], options["tls_key"])
    context.call_on_close(service.close)
    return service
