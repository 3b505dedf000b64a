"""Topics that bindings claim, and conflicts between bindings."""
