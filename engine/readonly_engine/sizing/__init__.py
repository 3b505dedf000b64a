"""Size of a pool from the load of its topics: `pulsar-readonly plan`."""
