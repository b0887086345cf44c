"""What a bookie's collector would free of its logs, and when: pure functions over columns, no I/O."""
