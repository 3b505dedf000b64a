"""The long checks: faults, random workloads, releases, stock clients and scale, each with a command of its own."""
