"""A registry of container images on this machine: the CNCF's distribution, built from its Go module."""
