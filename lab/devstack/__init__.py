"""A real Pulsar and a real Kubernetes on one machine, for the demo and the tests of pulsar-readonly."""
