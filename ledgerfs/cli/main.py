"""The command line's entry: its commands, and what each error becomes outside.

Exit codes: 0 fine, 1 found damage, 2 wrong usage, 3 storage unreachable or refused; 130 after Ctrl-C.
"""

import os
import sys

import click

from ledgerfs import __version__
from ledgerfs.cli.cat import cat
from ledgerfs.cli.info import info
from ledgerfs.cli.ls import ls
from ledgerfs.cli.output import say
from ledgerfs.cli.topics import topics
from ledgerfs.cli.verify import verify
from ledgerfs.errors import (
    AccessDeniedError,
    BucketNotFoundError,
    CorruptObjectError,
    LedgerfsError,
    ObjectNotFoundError,
    StaleObjectError,
    StoreError,
    UnsupportedFormatError,
)

EXIT_DAMAGE = 1
EXIT_USAGE = 2
EXIT_STORAGE = 3
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141

_EPILOG = """\b
Examples:
  ledgerfs topics s3://tier
  ledgerfs ls -l s3://tier entries/public/default
  ledgerfs cat s3://tier entries/public/default/orders/58.entries > 58.entries
  ledgerfs verify s3://tier

\b
Options of the storage are those of its fsspec filesystem: -o endpoint_url=http://host:9000, -o anon=true.
Credentials belong in the environment (AWS_ACCESS_KEY_ID, AWS_PROFILE, …), where other users cannot see them.
"""


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}, epilog=_EPILOG)
@click.version_option(__version__, prog_name="ledgerfs")
def cli() -> None:
    """Open an Apache Pulsar tiered-storage bucket without a broker."""


for command in (topics, ls, cat, info, verify):
    cli.add_command(command)


def main() -> None:
    """Run the command line and exit with its code."""
    try:
        code = cli.main(standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        code = EXIT_USAGE
    except (KeyboardInterrupt, click.Abort):
        say("interrupted")
        code = EXIT_INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has gone (`| head`): not an error of ours, and nobody is left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = EXIT_BROKEN_PIPE
    except LedgerfsError as error:
        say(f"ledgerfs: {error}")
        code = exit_code_of(error)
    sys.exit(code)


def exit_code_of(error: LedgerfsError) -> int:
    """Return the exit code for an error that ended a command."""
    if isinstance(error, CorruptObjectError | StaleObjectError | UnsupportedFormatError | ObjectNotFoundError):
        return EXIT_DAMAGE
    if isinstance(error, BucketNotFoundError | AccessDeniedError | StoreError):
        return EXIT_STORAGE
    return EXIT_USAGE
