"""What a pool should be in Kubernetes: specs in, manifests out; nothing here reads or writes anything."""
