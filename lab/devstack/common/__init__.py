"""Shared by the local Pulsar, Kubernetes, object store and images: programs, processes, locks and certificates."""
