"""The main job on real parts: a pool and a binding are applied, and stock clients read through the pool."""
