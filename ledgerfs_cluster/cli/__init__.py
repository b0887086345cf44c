"""Commands for clusters; `ledgerfs` finds them by their entry points."""
