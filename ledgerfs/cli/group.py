"""The entry of the command line: its commands, and the message and exit code of each error.

Exit codes: 0 success, 1 damage, 2 wrong usage or the output cannot be written, 3 storage, a broker or the cluster lock is
unreachable or refused, 130 after Ctrl-C, 141 if the reader of the output has closed it.
"""

import contextlib
import io
import logging
import os
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import click
from click.shell_completion import shell_complete

from ledgerfs import __version__
from ledgerfs.cli.commands import LazyCommand, LazyGroup
from ledgerfs.cli.output import Saying, say
from ledgerfs.errors import LedgerfsError, NamedSchemasWarning, UnplacedLedgersWarning, UnreadableObjectsWarning

COMPLETE_VARIABLE = "_LEDGERFS_COMPLETE"
"""Set by shells for completion."""

EXIT_DAMAGE = 1
EXIT_USAGE = 2
EXIT_STORAGE = 3
EXIT_BROKEN_PIPE = 141

_SHOWN = (NamedSchemasWarning, UnplacedLedgersWarning, UnreadableObjectsWarning)

_EPILOG = """\b
Examples:
  ledgerfs topics s3://tier
  ledgerfs ls -l s3://tier entries/public/default
  ledgerfs cat s3://tier entries/public/default/orders/58.entries > 58.entries
  ledgerfs head -n 5 s3://tier persistent://public/default/orders
  ledgerfs sql s3://tier "select key, count(*) from 'public/default/orders' group by key"
  ledgerfs export s3://tier persistent://public/default/orders orders/ --format parquet
  ledgerfs verify s3://tier
  ledgerfs repair s3://tier
  ledgerfs schemas save http://broker:8080 s3://tier
  ledgerfs cluster check pulsar+zk://zk1:2181
  ledgerfs lifecycle plan policy.toml
  ledgerfs recover plan s3://tier --into pulsar+zk://new:2181 --admin http://new:8080
  ledgerfs offload s3://tier s3://tier-backup
  ledgerfs compare s3://tier s3://tier-backup
  ledgerfs import rows.parquet s3://tier persistent://public/default/orders
  ledgerfs spark verify s3://tier             # with Apache Spark, on this machine or on a cluster
  ledgerfs mount s3://tier /mnt/tier          # as a folder, until: ledgerfs umount /mnt/tier
  ledgerfs count s3://tier --stats            # and the requests to the store, summed up; --trace prints each request

\b
Options of the storage are those of its fsspec filesystem: -o endpoint_url=http://host:9000, -o anon=true.
Credentials belong in the environment (AWS_ACCESS_KEY_ID, AWS_PROFILE, …), where other users cannot see them.
Shells complete commands and options after: eval "$(_LEDGERFS_COMPLETE=bash_source ledgerfs)" (zsh_source, fish_source).
"""


_COMMANDS = (
    LazyCommand("topics", "ledgerfs.cli.topics:topics", "List the topics of a bucket with their sizes and times."),
    LazyCommand("ledgers", "ledgerfs.cli.ledgers:ledgers", "List the ledgers of a bucket, or of a topic."),
    LazyCommand("ls", "ledgerfs.cli.ls:ls", "List a folder of the bucket's tree."),
    LazyCommand("cat", "ledgerfs.cli.cat:cat", "Write files of the bucket's tree to standard output."),
    LazyCommand("head", "ledgerfs.cli.head:head", "Show the first messages of a topic."),
    LazyCommand("tail", "ledgerfs.cli.tail:tail", "Show the last messages of a topic."),
    LazyCommand("find", "ledgerfs.cli.find:find", "Show the messages of a topic that meet all conditions."),
    LazyCommand("message", "ledgerfs.cli.message:message", "Show one message by its id."),
    LazyCommand(
        "count", "ledgerfs.cli.count:count", "Count the messages of topics."
    ),
    LazyCommand("sql", "ledgerfs.cli.sql:sql", "Query topics with SQL (DuckDB)."),
    LazyCommand("export", "ledgerfs.cli.export:export", "Export a topic to Parquet, Arrow, CSV or JSON lines."),
    LazyCommand(
        "info", "ledgerfs.cli.info:info",
        "Show index, metadata, blocks and objects of a ledger.",
    ),
    LazyCommand("verify", "ledgerfs.cli.verify:verify", "Check that every offloaded ledger of a bucket is whole."),
    LazyCommand(
        "offload", "ledgerfs.cli.offload:offload",
        "Copy ledgers to another bucket, and read the copies back.",
    ),
    LazyCommand("compare", "ledgerfs.cli.compare:compare", "Compare the ledgers and saved schemas of two buckets."),
    LazyCommand(
        "import", "ledgerfs.cli.import_rows:import_rows", "Write rows of files as messages of a new ledger."
    ),
    LazyCommand("repair", "ledgerfs.cli.repair:repair", "Show what can be repaired in a bucket; --yes repairs it."),
    LazyCommand(
        "schemas", "ledgerfs.cli.schemas.group:schemas", "Save, show and set the schemas of a bucket's topics."
    ),
    LazyCommand("rm", "ledgerfs.cli.rm:rm", "Delete ledgers from a bucket."),
    LazyCommand("mount", "ledgerfs.cli.mount:mount", "Mount a bucket on a folder."),
    LazyCommand("umount", "ledgerfs.cli.umount:umount", "Unmount a folder, also after its process was killed."),
    LazyCommand("warm", "ledgerfs.cli.warm:warm", "Compile all kernels, for images and new machines."),
    LazyCommand(
        "spark", "ledgerfs.cli.spark.group:spark", "Work on a whole bucket with Apache Spark."
    ),
)  # fmt: skip


@click.group(
    cls=LazyGroup,
    lazy=_COMMANDS,
    plugged="ledgerfs.commands",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog=_EPILOG,
)
@click.version_option(__version__, prog_name="ledgerfs")
def cli() -> None:
    """Open an Apache Pulsar tiered-storage bucket without a broker."""


def run() -> int:
    """Run a command and return the exit code."""
    logging.lastResort = Saying(logging.WARNING)
    try:
        return _invoke()
    except BrokenPipeError:
        # The reader of the output has exited (`| head`), which is not an error.
        _drop_output()
        return EXIT_BROKEN_PIPE
    except LedgerfsError as error:
        say(f"ledgerfs: {error}")
        return error.exit_code
    except OSError as error:
        say(f"ledgerfs: cannot write the output: {error.strerror or error}")
        _drop_output()
        return EXIT_USAGE


def _invoke() -> int:
    """Run a command as click does, except for exit codes; return the exit code."""
    if sys.stdout is None:
        say("ledgerfs: standard output is closed")
        return EXIT_USAGE
    asked = os.environ.get(COMPLETE_VARIABLE)
    if asked:
        return shell_complete(cli, {}, "ledgerfs", COMPLETE_VARIABLE, asked)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Escape characters that the terminal's encoding lacks, instead of failing.
        sys.stdout.reconfigure(errors="backslashreplace")
    shown: set[type[Warning]] = set()
    code = 0
    try:
        with _warnings_as_lines(shown), cli.make_context("ledgerfs", sys.argv[1:]) as context:
            cli.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as done:
        sys.stdout.flush()
        code = done.exit_code
    except click.ClickException as error:
        error.show()
        return EXIT_USAGE
    except click.Abort as error:
        raise KeyboardInterrupt from error
    return code or (EXIT_DAMAGE if UnreadableObjectsWarning in shown else 0)


@contextlib.contextmanager
def _warnings_as_lines(shown: set[type[Warning]]) -> Iterator[None]:
    """Print each of a bucket's warnings once, as a line on standard error; add their classes to ``shown``."""
    reported: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *rest: Any, **named: Any) -> None:  # noqa: ANN401  (as Python has it)
        if not issubclass(category, _SHOWN):
            shown_before(message, category, *rest, **named)
        elif str(message) not in reported:
            reported.add(str(message))
            shown.add(category)
            say(str(message))

    with warnings.catch_warnings():
        for one in _SHOWN:
            warnings.simplefilter("always", one)
        shown_before, warnings.showwarning = warnings.showwarning, show
        yield


def _drop_output() -> None:
    """Discard buffered output, which Python would write at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def conclude(context: click.Context, *, is_sound: bool, is_complete: bool) -> None:
    """Exit with the code of a check: 1 for damage, else 3 if something could not be checked."""
    if not is_sound:
        context.exit(EXIT_DAMAGE)
    if not is_complete:
        context.exit(EXIT_STORAGE)
