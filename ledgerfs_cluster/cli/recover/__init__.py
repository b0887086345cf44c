"""``ledgerfs recover``: restore a lost cluster's topics in a new one."""
