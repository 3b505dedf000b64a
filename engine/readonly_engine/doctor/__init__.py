"""`pulsar-readonly doctor`: check a source cluster and this machine, before or after an installation. It changes nothing."""
