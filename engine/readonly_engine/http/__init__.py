"""What operators of the broker ask it over HTTP: health, metrics, statistics, bindings."""
