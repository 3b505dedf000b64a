"""A Docker engine in namespaces of its own, and real kind on it."""
