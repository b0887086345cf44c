"""``ledgerfs recover``: a lost cluster's topics in a new one."""
