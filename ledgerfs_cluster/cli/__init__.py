"""Commands on clusters; `ledgerfs` finds them by their entry points."""
