"""The API: specs of pools and bindings as typed values, and their custom resource definitions."""
