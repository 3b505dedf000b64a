# Comparisons with stock software, on this machine. BENCH="--quick" passes options on.
.PHONY: bench-storage
bench-storage: venv ## reads of ledgers, compared with BookKeeper's own Java client; writes the table in docs/explanation/performance-parts.md (BENCH=options)
	@$(PY) -m bench.storage $(BENCH)

.PHONY: bench-idle
bench-idle: venv ## CPU and memory of a read-only broker with 10,000 quiet connections (BENCH=--write for docs/explanation/performance-parts.md)
	@$(PY) -m bench.idle $(BENCH)

.PHONY: bench-status-page
bench-status-page: venv ## load of the status page with 10 and 5,000 topics, and CPU while nobody looks (BENCH="--short --rounds 2 --seconds 5", BENCH=--write)
	@$(PY) -m bench status-page $(BENCH)

.PHONY: bench
bench: venv ## read-only brokers and stock brokers by turns: takes hours; writes docs/explanation/performance*.md (BENCH=options)
	@$(PY) -m bench all --write $(BENCH)

.PHONY: bench-spark
bench-spark: venv ## reads by Spark, compared with its Kafka source and the Pulsar connector (BENCH=--write for docs/explanation/spark-performance.md)
	@$(PY) -m bench.spark $(BENCH)

.PHONY: bench-spark-owner
bench-spark-owner: venv ## effect on an owner while Spark reads a backlog (BENCH=--write for docs/explanation/spark-performance.md)
	@$(PY) -m bench.spark.beside $(BENCH)

.PHONY: bench-spark-pairs
bench-spark-pairs: venv ## the same in pairs of short windows, which show differences of a few percent (BENCH=--write as above)
	@$(PY) -m bench.spark.paired $(BENCH)

.PHONY: bench-spark-latency
bench-spark-latency: venv ## time from a record to a stream's Parquet table with a trigger of 100 ms, beside Kafka's source (BENCH=--write as above)
	@$(PY) -m bench.spark.latency $(BENCH)

.PHONY: bench-spark-scale
bench-spark-scale: venv ## reads with one worker of Spark and with two, and plans over 1,000 topics (BENCH=--write for docs/explanation/spark-performance.md)
	@$(PY) -m bench.spark.scale $(BENCH)
