# Measurements beside stock software, on this machine. BENCH="--quick" passes options on.
.PHONY: bench-storage
bench-storage: $(STAMP) ## reads of ledgers beside BookKeeper's own Java client; writes the table in docs/performance.md (BENCH=options)
	@$(PY) -m bench.storage $(BENCH)
