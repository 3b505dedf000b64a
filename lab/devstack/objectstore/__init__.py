"""A real object store on 127.0.0.1 for tests: MinIO, built from its Go module."""
