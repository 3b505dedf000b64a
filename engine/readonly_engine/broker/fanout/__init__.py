"""One tail batch for many consumers: groups that get the same bytes."""
