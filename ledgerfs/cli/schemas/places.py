"""Open saved schemas: in the bucket, or at another URL."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from ledgerfs.cli.options import target_option, target_options_of
from ledgerfs.cli.traffic_options import Command
from ledgerfs.errors import InvalidOptionError, UnsupportedWriteError

if TYPE_CHECKING:
    from ledgerfs.bucket.bucket import Bucket
    from ledgerfs.bucket.known_schemas import KnownSchemas
    from ledgerfs.schemas.saved_schemas import SavedSchemas


def place_option(name: str, text: str) -> Callable[[Command], Command]:
    """Return a decorator that adds the URL option and -O; the command gets both as ``place``, for `saved_at`."""

    def add(command: Command) -> Command:
        url = click.option(name, "place", metavar="URL", callback=_place, help=text)
        return url(target_option(f"the URL of {name}")(command))

    return add


def known_at(bucket: "Bucket", place: tuple[str, dict[str, Any]] | None) -> "SavedSchemas | KnownSchemas":
    """Return the schemas that are saved in a bucket or at another URL, or those of a live cluster.

    Raises the errors of `saved_at`.
    """
    # These import fsspec, which --help does not need.
    from ledgerfs.bucket.known_schemas import KnownSchemas

    return KnownSchemas(bucket) if place is None else saved_at(bucket, place)


def saved_at(bucket: "Bucket", place: tuple[str, dict[str, Any]] | None, *, make: bool = False) -> "SavedSchemas":
    """Return the writable saved schemas of a bucket or another URL; with ``make``, create the folder at that URL.

    Raises `InvalidOptionError` for the URL of the bucket: schemas beside its ledgers would be foreign objects. Raises
    `UnsupportedWriteError` for a live cluster.
    """
    from ledgerfs.schemas.saved_schemas import SavedSchemas, saved_schemas_at

    if place is None:
        if bucket.source.keeps_schemas:
            reason = f"ledgerfs cannot write to {bucket.source.what}, which has its own schemas; choose another place with --to"
            raise UnsupportedWriteError(reason, key=bucket.url)
        return SavedSchemas(bucket.raw_store)
    saved = saved_schemas_at(*place)
    if bucket.has_objects and saved.source == SavedSchemas(bucket.raw_store, "").source:
        reason = "is the bucket itself, which stores schemas in its own folder; leave out the option"
        raise InvalidOptionError(reason, key=place[0])
    if make:
        saved.make_place()
    return saved


def _place(context: click.Context, _: click.Parameter, url: str | None) -> tuple[str, dict[str, Any]] | None:
    return None if url is None else (url, target_options_of(context))
