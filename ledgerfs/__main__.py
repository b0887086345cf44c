"""``python -m ledgerfs``: the command line."""

from ledgerfs.cli import main

if __name__ == "__main__":
    main()
