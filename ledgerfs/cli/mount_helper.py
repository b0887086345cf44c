"""``mount.ledgerfs``, which mount(8) calls for ``mount -t ledgerfs`` and for lines of ``/etc/fstab``.

Runs ``ledgerfs mount`` with the options of one list. They stay in this process, so ``ps`` shows only the arguments of mount(8).
"""

import getopt
import sys

from ledgerfs.cli import main as run_command
from ledgerfs.cli.output import say
from ledgerfs.errors import LedgerfsError
from ledgerfs.fuse_mount.option_names import sort_options, split_options

_USAGE = "usage: mount.ledgerfs BUCKET FOLDER [-sfnv] [-o OPTION,…]"
_EXIT_USAGE = 2
_WITH_VALUES = ("-o", "-N", "-t")


def main() -> None:
    """Mount with mount(8)'s arguments, and exit as ``ledgerfs mount`` does."""
    try:
        given, places = getopt.gnu_getopt(sys.argv[1:], "sfnv" + "".join(f"{name[1]}:" for name in _WITH_VALUES))
        if not all(text.strip() for text in (*places, *(value for name, value in given if name in _WITH_VALUES))):
            raise getopt.GetoptError("an option or argument is empty; is a shell variable not set?")
        options = [option for name, value in given if name == "-o" for option in split_options(value)]
        if len(places) != 2:
            raise getopt.GetoptError(_USAGE)
        if "remount" in options:
            raise getopt.GetoptError("a mount cannot be changed; unmount, and mount again")
        arguments = command_of(places[0], places[1], options)
    except (getopt.GetoptError, LedgerfsError) as error:
        say(f"mount.ledgerfs: {error}")
        sys.exit(_EXIT_USAGE)
    if any(name == "-f" for name, _ in given):
        return
    sys.argv = ["ledgerfs", *arguments]
    run_command()


def command_of(bucket: str, folder: str, options: list[str]) -> list[str]:
    """Return the arguments of ``ledgerfs`` for a line of ``/etc/fstab``. ``rw``, which all lines contain, does not mean ``--write``."""
    chosen = sort_options(options)
    arguments = ["mount"]
    for option in chosen.mount:
        name, equals, value = option.partition("=")
        arguments.append(f"--{name.replace('_', '-')}{equals}{value}")
    for name, fuse_value in chosen.fuse.items():
        arguments += ["-o", name if fuse_value is True else f"{name}={fuse_value}"]
    for option in (*chosen.storage, *chosen.scan):
        arguments += ["-o", option]
    words = {"ro": chosen.is_read_only, "nonempty": chosen.may_hide_files}
    arguments += [part for word, is_given in words.items() if is_given for part in ("-o", word)]
    return [*arguments, "--", bucket, folder]
