"""Kubernetes on one machine, by kind or on local nodes."""
