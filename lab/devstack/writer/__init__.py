"""The source Pulsar cluster that demo and tests run inside Kubernetes."""
