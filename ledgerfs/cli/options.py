"""What the commands have in common: the bucket, the options of its storage, and what is told of the traffic with it."""

import json
from collections.abc import Callable
from typing import Any, TypeVar

import click

from ledgerfs.cli.traffic_options import say_stats_at_end, traffic_options
from ledgerfs.vfs.bucket import Bucket, open_bucket

Command = TypeVar("Command", bound=Callable[..., Any])

CODECS = ("none", "lz4", "zlib", "zstd", "snappy")
"""Names of compressions, here so that a command can offer them without the libraries."""

_TEXTS = frozenset({"key", "secret", "token", "username", "password", "account_name", "account_key", "profile"})
"""Options that are texts, also when they look like numbers."""

_OPTION_HELP = (
    "Option of the storage's filesystem, such as endpoint_url=http://host:9000 or anon=true; may be repeated."
)


def bucket_argument(command: Command) -> Command:
    """Add the argument BUCKET and the options -o, --stats and --trace; the command gets an opened `Bucket` as ``bucket``."""
    option = click.option(
        "-o", "--option", "storage_options", multiple=True, metavar="KEY=VALUE", help=_OPTION_HELP, callback=_storage_options,
        is_eager=True, expose_value=False,
    )  # fmt: skip
    argument = click.argument("bucket", metavar="BUCKET", callback=_open)
    return argument(option(traffic_options(command)))


def target_argument(command: Command) -> Command:
    """Add the argument TARGET and the option -O; the command gets an opened `Bucket` as ``target``."""
    option = click.option(
        "-O", "--target-option", "target_options", multiple=True, metavar="KEY=VALUE", is_eager=True, expose_value=False,
        help="As -o, for TARGET.", callback=_target_options,
    )  # fmt: skip
    return click.argument("target", metavar="TARGET", callback=_open_target)(option(command))


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON: exact bytes, times in ISO 8601 UTC.")


def _storage_options(context: click.Context, _: click.Parameter, values: tuple[str, ...]) -> None:
    """Keep the options for `_open`."""
    context.meta["ledgerfs.storage_options"] = parsed_options(values)


def _target_options(context: click.Context, _: click.Parameter, values: tuple[str, ...]) -> None:
    context.meta["ledgerfs.target_options"] = parsed_options(values)


def parsed_options(values: tuple[str, ...]) -> dict[str, Any]:
    """Return the options of ``KEY=VALUE`` texts; raises `click.BadParameter`."""
    options: dict[str, Any] = {}
    for text in values:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{text!r} is not KEY=VALUE")
        options[name] = value if name in _TEXTS else _value(value)
    return options


def _value(text: str) -> Any:  # noqa: ANN401  (whatever JSON knows)
    """Return a value that is JSON where it parses as such (``true``, ``3``, ``{"verify": false}``), else the text."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _open_target(context: click.Context, _: click.Parameter, url: str) -> Bucket:
    if not url:
        raise click.BadParameter("the bucket's URL is empty")
    return open_bucket(url, context.meta.get("ledgerfs.target_options"))


def _open(context: click.Context, _: click.Parameter, url: str) -> Bucket:
    if not url:
        raise click.BadParameter("the bucket's URL is empty")
    bucket = open_bucket(url, context.meta.get("ledgerfs.storage_options"))
    say_stats_at_end(context, bucket)
    return bucket
