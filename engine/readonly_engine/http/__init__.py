"""HTTP endpoints of a broker: health, metrics, statistics, bindings."""
