"""Jars by their Maven coordinates, pinned by checksum: for the `spark` image, and what the benches of Spark compare with."""
