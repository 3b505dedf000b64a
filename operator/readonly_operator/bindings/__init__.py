"""Which topics bindings claim, and which bindings conflict."""
