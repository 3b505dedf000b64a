"""The benches of `make bench`, one a file."""
