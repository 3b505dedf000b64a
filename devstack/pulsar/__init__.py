"""A real Apache Pulsar as processes of this machine."""
