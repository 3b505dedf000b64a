"""Jars by their Maven coordinates, pinned by checksum: for the `spark` image, and what `make bench-spark` compares with."""
