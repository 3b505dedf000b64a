"""Oxia as the metadata store, by its gRPC API."""

import os

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # read when gRPC loads: it would write to stderr what callers log
