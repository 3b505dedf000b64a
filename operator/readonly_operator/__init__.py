"""Kubernetes operator of read-only broker pools: `pulsar-readonly operator`."""
