"""Desired Kubernetes objects of a pool: specs in, manifests out. Nothing here does I/O."""
