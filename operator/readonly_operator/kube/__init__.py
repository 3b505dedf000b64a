"""Kubernetes: names, kinds, requests to the API server, and what is known of its objects."""
