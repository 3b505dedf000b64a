"""`make -C lab sleep`: cycles of a pool that sleeps, with stock clients of three languages, on a real Kubernetes."""
