"""In which order, and how fast, due work is done: turns of topics, and a rate that follows the backlog. No I/O, and no clock of its own."""
