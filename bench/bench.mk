# Measurements beside stock software, on this machine. BENCH="--quick" passes options on.
.PHONY: bench-storage
bench-storage: $(STAMP) ## reads of ledgers beside BookKeeper's own Java client; writes the table in docs/explanation/performance.md (BENCH=options)
	@$(PY) -m bench.storage $(BENCH)

.PHONY: bench-idle
bench-idle: $(STAMP) ## CPU and memory that 10,000 quiet connections cost a read-only broker (BENCH=--write for docs/explanation/performance.md)
	@$(PY) -m bench.idle $(BENCH)

.PHONY: bench
bench: $(STAMP) ## read-only brokers beside stock ones, in turns: all of it takes hours; writes docs/explanation/performance.md (BENCH=options)
	@$(PY) -m bench all --write $(BENCH)

.PHONY: bench-spark
bench-spark: $(STAMP) ## rows read by Spark, beside its Kafka source and the Pulsar connector (BENCH=--write for docs/explanation/spark-performance.md)
	@$(PY) -m bench.spark $(BENCH)

.PHONY: bench-spark-owner
bench-spark-owner: $(STAMP) ## what an owner notices while Spark reads a backlog beside it (BENCH=--write for docs/explanation/spark-performance.md)
	@$(PY) -m bench.spark.beside $(BENCH)

.PHONY: bench-spark-pairs
bench-spark-pairs: $(STAMP) ## the same in pairs of short windows, which tell differences of few percent (BENCH=--write as above)
	@$(PY) -m bench.spark.paired $(BENCH)

.PHONY: bench-spark-scale
bench-spark-scale: $(STAMP) ## reads on one worker of Spark and on two, and plans over 1,000 topics (BENCH=--write for docs/explanation/spark-performance.md)
	@$(PY) -m bench.spark.scale $(BENCH)
