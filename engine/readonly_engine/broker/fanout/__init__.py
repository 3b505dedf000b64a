"""Fan-out: groups of consumers that get each tail batch together."""
