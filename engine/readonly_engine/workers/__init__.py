"""Several broker processes that are started and ended as one: a process for each core."""
