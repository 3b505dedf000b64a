"""Kubernetes: names, kinds, requests to the API server, and a store of watched objects."""
