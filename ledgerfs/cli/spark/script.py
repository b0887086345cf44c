"""A pipeline's module run as a script, by ``python -m`` or ``spark-submit``: the command of the same name, with its exit codes."""

import sys

import ledgerfs.cli


def run_script(command: str) -> None:
    """Run ``ledgerfs spark <command>`` with the arguments of this process, and exit with its code."""
    sys.argv[1:1] = ["spark", command]
    ledgerfs.cli.main()
