"""The option --bucket: the buckets that a cluster offloads to, opened under the names that the cluster has for them."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

from ledgerfs.cli.options import parsed_options
from ledgerfs.cli.traffic_options import Command

if TYPE_CHECKING:
    from ledgerfs.upkeep.doctor.tier_listing import Tier


def tier_options(command: Command) -> Command:
    """Add --bucket and -O; the command gets ``buckets``, and the options of their storage as ``bucket_options``."""
    for add in (
        click.option(
            "-O", "--bucket-option", "bucket_options", multiple=True, metavar="KEY=VALUE", callback=_parsed,
            help="As -o, for the buckets.",
        ),
        click.option(
            "--bucket", "buckets", multiple=True, metavar="URL",
            help="A bucket that the cluster offloads to, such as s3://tier; may be repeated.",
        ),
    ):  # fmt: skip
        command = add(command)
    return command


def opened_tiers(urls: Iterable[str], options: Mapping[str, Any], elsewhere: Mapping[str, str]) -> "list[Tier]":
    """Open buckets; ``elsewhere`` is {name in the cluster's metadata: URL} for those that are called otherwise by now."""
    # These import numpy and fsspec, which --help does not need.
    from ledgerfs.bucket.opening import open_bucket
    from ledgerfs.upkeep.doctor.tier_listing import Tier

    found = []
    for url in urls:
        names = {_name_in(url), *(name for name, place in elsewhere.items() if place.rstrip("/") == url.rstrip("/"))}
        found.append(Tier(open_bucket(url, options), frozenset(names), options.get("endpoint_url")))
    return found


def _name_in(url: str) -> str:
    """Return the name of the bucket of a URL; of a folder of this machine, its own."""
    scheme, separator, rest = url.rpartition("://")
    is_folder = not separator or scheme.rpartition("::")[2] in {"file", "local"}
    if is_folder:
        return rest.rstrip("/").rpartition("/")[2]
    name, _, path = rest.partition("/")
    if path:
        # What lies beside this folder would seem to be lost.
        raise click.BadParameter(f"{url!r} is a part of a bucket; offloads are at its top: {scheme}://{name}")
    return name


def _parsed(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> dict[str, Any]:
    return parsed_options(values)
