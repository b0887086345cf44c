"""Arguments and options that commands share: the bucket, its storage options, and traffic reports."""

import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from ledgerfs.catalog.layouts_known import AUTO, OF_BUCKETS
from ledgerfs.cli.traffic_options import Command, say_stats_at_end, traffic_options

if TYPE_CHECKING:
    from ledgerfs.bucket.bucket import Bucket
    from ledgerfs.bucket.current_catalog import OnUnreadable

CODECS = ("none", "lz4", "zlib", "zstd", "snappy")
"""Names of compressions, here so that commands list them without importing the libraries."""

_TEXTS = frozenset({"key", "secret", "token", "username", "password", "account_name", "account_key", "profile"})
"""Options whose values stay texts even if they can be parsed as numbers."""


def bucket_argument(command: Command) -> Command:
    """Add the argument BUCKET and the options -o, --stats and --trace; the command gets an opened `Bucket` as ``bucket``."""
    argument = click.argument("bucket", metavar="BUCKET", callback=_open)
    return argument(storage_option(metadata_option(layout_option(traffic_options(command)))))


def disks_argument(command: Command) -> Command:
    """Add the same as `bucket_argument`, but accept several bookie disks, which are opened as one bucket."""
    argument = click.argument("bucket", metavar="BUCKET...", nargs=-1, required=True, callback=_open_disks)
    return argument(storage_option(metadata_option(layout_option(traffic_options(command)))))


def metadata_option(command: Command) -> Command:
    """Add the option --metadata, a storage option of bookie disks."""
    option = click.option(
        "--metadata", metavar="URL|FILE", is_eager=True, expose_value=False, callback=_keep("metadata"),
        help="For disks of bookies: metadata of their cluster, pulsar+zk://… or a file of `ledgerfs cluster dump`.",
    )  # fmt: skip
    return option(command)


def optional_bucket_argument(command: Command) -> Command:
    """Add the same as `bucket_argument`; the command gets None without BUCKET."""
    argument = click.argument("bucket", metavar="[BUCKET]", required=False, callback=_open)
    return argument(storage_option(layout_option(traffic_options(command))))


def opened_here(context: click.Context, url: str) -> "Bucket":
    """Open the bucket or cluster at a URL from another argument, with the options -o and --layout."""
    layout = context.meta.get("ledgerfs.layout", AUTO)
    on_unreadable = context.meta.get("ledgerfs.on_unreadable", "raise")
    bucket = _opened(url, storage_options_of(context), layout, on_unreadable)
    say_stats_at_end(context, bucket)
    return bucket


def layout_option(command: Command) -> Command:
    """Add the options --layout and --on-unreadable, which `opened_here` applies."""
    option = click.option(
        "--layout", type=click.Choice([AUTO, *OF_BUCKETS]), default=AUTO, is_eager=True, expose_value=False, callback=_keep("layout"),
        help="Layout of the ledgers in BUCKET; auto reads all layouts.", show_default=True,
    )  # fmt: skip
    refused = click.option(
        "--on-unreadable", type=click.Choice(["raise", "skip"]), default="raise", is_eager=True, expose_value=False,
        callback=_keep("on_unreadable"), show_default=True,
        help="Objects that the store refuses (denied, archived): raise stops; skip reads the rest, with exit code 1.",
    )  # fmt: skip
    return option(refused(command))


def storage_option(command: Command) -> Command:
    """Add the option -o, whose values `storage_options_of` returns."""
    option = click.option(
        "-o", "--option", "storage_options", multiple=True, metavar="KEY=VALUE", is_eager=True, expose_value=False,
        callback=_keep("storage_options", parsed_options),
        help="Option of the storage's filesystem, such as endpoint_url=http://host:9000 or anon=true; may be repeated.",
    )  # fmt: skip
    return option(command)


def storage_options_of(context: click.Context) -> dict[str, Any]:
    """Return the values of -o, and of --metadata."""
    options = context.meta.get("ledgerfs.storage_options") or {}
    metadata = context.meta.get("ledgerfs.metadata")
    return options if metadata is None else {**options, "metadata": metadata}


def target_argument(command: Command) -> Command:
    """Add the argument TARGET and the option -O; the command gets an opened `Bucket` as ``target``."""
    return click.argument("target", metavar="TARGET", callback=_open_target)(target_option("TARGET")(command))


def target_option(of: str) -> Callable[[Command], Command]:
    """Return a decorator that adds the option -O; ``of`` describes the target in its help. `target_options_of` returns its values."""
    return click.option(
        "-O", "--target-option", "target_options", multiple=True, metavar="KEY=VALUE", is_eager=True, expose_value=False,
        help=f"As -o, for {of}.", callback=_keep("target_options", parsed_options),
    )  # fmt: skip


def target_options_of(context: click.Context) -> dict[str, Any]:
    """Return the values of -O."""
    found: dict[str, Any] = context.meta.get("ledgerfs.target_options") or {}
    return found


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON: exact bytes, times in ISO 8601 UTC.")


def _keep(
    name: str, parse: Callable[[Any], Any] = lambda value: value
) -> Callable[[click.Context, click.Parameter, Any], None]:
    """Return an option callback that stores the value in the context, where callbacks of arguments read it."""

    def keep(context: click.Context, _: click.Parameter, value: Any) -> None:  # noqa: ANN401  (click's)
        context.meta[f"ledgerfs.{name}"] = parse(value)

    return keep


def parsed_options(values: tuple[str, ...]) -> dict[str, Any]:
    """Return the options of ``KEY=VALUE`` texts; raises `click.BadParameter`."""
    return {name: value if name in _TEXTS else _value(value) for name, value in parsed_texts(values).items()}


def parsed_texts(values: tuple[str, ...]) -> dict[str, str]:
    """Return names and values of ``KEY=VALUE`` texts; raises `click.BadParameter`."""
    found = {}
    for text in values:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{text!r} is not KEY=VALUE")
        if not value.strip():
            raise click.BadParameter(f"{text!r} has no value; is a shell variable not set?")
        found[name] = value
    return found


def _value(text: str) -> Any:  # noqa: ANN401  (any JSON value)
    """Return the value of a JSON text (``true``, ``3``, ``{"verify": false}``), otherwise the text itself."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _open_target(context: click.Context, _: click.Parameter, url: str) -> "Bucket | None":
    return None if context.resilient_parsing else _opened(url, target_options_of(context))


def _open(context: click.Context, _: click.Parameter, url: str | None) -> "Bucket | None":
    if context.resilient_parsing or url is None:  # shell completion, where the URL may be incomplete
        return None
    return opened_here(context, url)


def _open_disks(context: click.Context, param: click.Parameter, urls: tuple[str, ...]) -> "Bucket | None":
    if context.resilient_parsing:
        return None
    if len(urls) == 1:
        return opened_here(context, urls[0])
    from ledgerfs.catalog.source import url_of_paths

    strange = next((url for url in urls if "://" in url), None)
    paths = [os.path.abspath(url) for url in urls]  # noqa: PTH100  (texts, as fsspec has them)
    url = None if strange is not None else url_of_paths(paths, storage_options_of(context))
    if url is None:
        reason = f"several paths must be bookie disks, but {strange or urls[0]} is not a bookie disk"
        raise click.BadParameter(reason, ctx=context, param=param)
    return opened_here(context, url)


def _opened(
    url: str, storage_options: dict[str, Any], layout: str = AUTO, on_unreadable: "OnUnreadable" = "raise"
) -> "Bucket":
    # This imports numpy and fsspec, which help, completion and wrong usage do not need.
    from ledgerfs.bucket.opening import open_bucket

    return open_bucket(url, storage_options, layout=layout, on_unreadable=on_unreadable)
