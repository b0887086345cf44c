"""``ledgerfs mount``: a bucket as a local folder."""

import os
from pathlib import Path
from typing import Any

import click

from ledgerfs.catalog.layouts_known import AUTO, OF_BUCKETS
from ledgerfs.cli.commands import command
from ledgerfs.cli.options import parsed_options
from ledgerfs.cli.output import say
from ledgerfs.cli.parameter_types import Duration, LocalPath, Size
from ledgerfs.cli.scan_options import schema_version_of
from ledgerfs.errors import MountFailedError
from ledgerfs.fuse_mount.launching import mount_in_background
from ledgerfs.fuse_mount.mount_request import MountRequest, absolute_url
from ledgerfs.fuse_mount.mountpoint import absolute, require_usable
from ledgerfs.fuse_mount.option_names import SortedOptions, sort_options
from ledgerfs.fuse_mount.unmounting import clear_if_dead
from ledgerfs.scan.options import ScanOptions

_FUSE_CONF = Path("/etc/fuse.conf")
_OPTION_HELP = (
    "Option of the storage's filesystem, such as endpoint_url=http://host:9000, of FUSE, such as uid=1000, or of the tables, such as "
    "values=typed; may be repeated."
)


@command()
@click.argument("bucket", metavar="BUCKET")
@click.argument("folder", metavar="FOLDER", type=LocalPath())
@click.option("-o", "--option", "texts", multiple=True, metavar="OPTION", help=_OPTION_HELP)
@click.option("--write", is_flag=True, help="Allow copies into entries/, and deletions there.")
@click.option("--allow-other", is_flag=True, help="Allow access by other users.")
@click.option(
    "--refresh", type=Duration(), default="60s", show_default=True, help="Maximum age of a listing of the bucket."
)
@click.option("--cache-dir", type=LocalPath(), help="Folder for caches on disk; byte ranges are cached only with it.")
@click.option(
    "--layout",
    type=click.Choice([AUTO, *OF_BUCKETS]),
    default=AUTO,
    show_default=True,
    help="Layout of the ledgers in BUCKET.",
)
@click.option(
    "--on-unreadable", type=click.Choice(["raise", "skip"]), default="raise", show_default=True,
    help="Objects that the store refuses: raise is an error; skip leaves them out.",
)  # fmt: skip
@click.option("--block-size", type=Size(), help="Block size of written ledgers, such as 64MiB.")
@click.option(
    "--foreground", is_flag=True, help="Serve in the foreground until Ctrl-C or SIGTERM; log to standard error."
)
@click.option("--log-file", type=LocalPath(), help="[default: mounts/<folder>.log in the cache folder]")
@click.option("--pid-file", type=LocalPath(), help="File for the process id of the mount.")
@click.option(
    "--env-file", type=LocalPath(), help="File with environment variables for the mount, such as AWS_ACCESS_KEY_ID=…."
)
@click.option("--trace", is_flag=True, help="Log each request to the store.")
@click.option("--stats", is_flag=True, help="Log a summary of requests to the store at the end.")
def mount(bucket: str, folder: Path, texts: tuple[str, ...], **fields: Any) -> None:  # noqa: ANN401  (click's)
    """Mount a bucket on a folder.

    Returns when the mount answers.

    Exit code 2: the folder cannot be mounted on; 3: the store refused or did not answer.

    \b
    Examples:
      ledgerfs mount s3://tier /mnt/tier
      ledgerfs mount s3://tier /mnt/tier -o values=auto -o on_undecodable=null
      ls -l /mnt/tier/entries/public/default/orders
      head -n 1 /mnt/tier/jsonl/public/default/orders/58.jsonl
      ledgerfs umount /mnt/tier
    """
    options = sort_options(texts)
    if options.mount:
        raise click.UsageError(f"-o {options.mount[0]}: use --{options.mount[0].replace('_', '-')} instead")
    if options.is_read_only and fields["write"]:
        raise click.UsageError("--write and -o ro contradict each other")
    is_here, is_for_others = fields.pop("foreground"), fields.pop("allow_other")
    given: dict[str, Any] = {
        name: str(one.absolute()) if isinstance(one, Path) else one for name, one in fields.items()
    }
    request = MountRequest(
        url=absolute_url(bucket),
        mountpoint=absolute(folder),
        storage_options=parsed_options(tuple(options.storage)),
        fuse_options=_fuse_options(options, allow_other=is_for_others),
        scan_options=_scan_options(options),
        **given,
    )
    if clear_if_dead(request.mountpoint):
        say(f"{request.mountpoint}: removed a mount whose process was killed")
    require_usable(request.mountpoint, may_hide_files=options.may_hide_files)
    if is_here:
        _serve_here(request)
    elif notice := mount_in_background(request):
        say(notice)


def _scan_options(options: SortedOptions) -> dict[str, Any]:
    """Return the scan options of the mounted tables; raises `InvalidOptionError` for options that mounted files do not support."""
    found: dict[str, Any] = options.scan_options
    if "schema_version" in found:
        found["schema_version"] = schema_version_of(found["schema_version"])
    ScanOptions.of(**found).require_of_files()
    return found


def _fuse_options(options: SortedOptions, *, allow_other: bool) -> dict[str, Any]:
    chosen: dict[str, Any] = dict(options.fuse)
    if allow_other:
        chosen["allow_other"] = True
    if {"allow_other", "allow_root"} & chosen.keys():
        if os.geteuid() != 0 and not _is_allowed():
            reason = f"only root can allow other users, unless {_FUSE_CONF} has a line user_allow_other"
            raise MountFailedError(reason, key="--allow-other")
        # The kernel then checks owner and mode; without this every user with access could write.
        chosen["default_permissions"] = True
    return chosen


def _is_allowed() -> bool:
    try:
        lines = _FUSE_CONF.read_text().splitlines()
    except OSError:
        return False
    return any(line.strip() == "user_allow_other" for line in lines)


def _serve_here(request: MountRequest) -> None:
    # Imported here: a process that only starts another one does not need these.
    from ledgerfs.fuse_mount.mount_log import log_to_file, log_to_standard_error
    from ledgerfs.fuse_mount.serving import serve_bucket, tell_systemd

    log_to_standard_error(request)
    if request.log_file is not None:
        log_to_file(request)
    try:
        serve_bucket(request, lambda _: tell_systemd("READY=1"))
    finally:
        tell_systemd("STOPPING=1")
