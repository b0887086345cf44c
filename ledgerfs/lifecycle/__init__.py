"""All topics of a cluster over time: what policies want of them, what of it is due, and doing it so that no message is lost."""
