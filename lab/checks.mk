# The long checks. They are not part of `make test`; oracle, fuzz, hostile and frameworks have a short form there, churn and compat one of the nightly tests.
SEED ?=
ENTRIES ?= 200000
MINUTES ?= 10

.PHONY: oracle faults fuzz
oracle: venv ## random workloads: storage against the owner's messages, byte for byte (SEED= ENTRIES=200000)
	@$(PY) -m longtests.oracle $(if $(SEED),--seed $(SEED)) --entries $(ENTRIES)
faults: venv ## kill, stall and corrupt servers under readers at the tail, each 3 times; a table of pauses (FAULTS_OPTIONS=--write)
	@$(PY) -m longtests.faults $(FAULTS_OPTIONS)
fuzz: venv ## every parser against damaged input, MINUTES=10 each
	@$(PY) -m longtests.fuzz --minutes $(MINUTES) $(FUZZ_OPTIONS)

.PHONY: hostile
hostile: venv ## raw-socket clients that break the protocol, at an owner and at a pool: docs/testing/hostile-clients.md (HOSTILE_OPTIONS=--write or --local-cursors)
	@$(PY) -m longtests.hostile $(HOSTILE_OPTIONS)

.PHONY: compat
compat: venv ## stock clients of three languages at the owner and through a pool: docs/reference/compatibility.md (COMPAT_OPTIONS=--write)
	@$(PY) -m longtests.compat $(COMPAT_OPTIONS)
.PHONY: frameworks
frameworks: venv ## programs of frameworks at the owner and through a pool, also while servers are disturbed: docs/reference/frameworks.md (FRAMEWORKS_OPTIONS=--write)
	@$(PY) -m longtests.frameworks $(FRAMEWORKS_OPTIONS)
.PHONY: compat-drivers
compat-drivers: venv ## tests of the drivers of make -C lab compat, each operation on a stock cluster
	@$(PY) -m pytest lab/longtests/compat/test_drivers.py

.PHONY: churn owner-kill
churn: venv ## consumers connect and disconnect at a pool whose brokers are killed (SEED= MINUTES=10 CHURN_OPTIONS=--direct)
	@$(PY) -m longtests.churn $(if $(SEED),--seed $(SEED)) --minutes $(MINUTES) $(CHURN_OPTIONS)
owner-kill: venv ## kill -9 of an owner under 100 consumers, through a pool and directly; a table of gaps (OWNER_KILL_OPTIONS=--write)
	@$(PY) -m longtests.churn.owner_kill $(OWNER_KILL_OPTIONS)

.PHONY: sleep
sleep: venv ## stock Python, Java and Go clients wake a pool that sleeps, 20 times, on Kubernetes, as root (SLEEP_OPTIONS="--cycles 20 --write")
	@$(PY) -m longtests.sleep $(SLEEP_OPTIONS)

.PHONY: placement
placement: venv ## topics whose subscriptions come and go, so that consumers swing between owner and pool (PLACEMENT_OPTIONS=--write)
	@$(PY) -m longtests.placement $(PLACEMENT_OPTIONS)

.PHONY: replay
replay: venv ## a recorded week is replayed at a pace and at once: order, drift, a killed broker, CPU (REPLAY_OPTIONS="--count 100000 --write")
	@$(PY) -m longtests.replay $(REPLAY_OPTIONS)

.PHONY: matrix
matrix: venv ## every release of Pulsar with integration, oracle, churn, faults and compat: docs/reference/releases.md (MATRIX_OPTIONS=--help)
	@$(PY) -m longtests.matrix --minutes $(MINUTES) $(MATRIX_OPTIONS)

.PHONY: releases
releases: venv ## what consumers see of two releases of Pulsar at their own defaults: docs/reference/releases.md (RELEASES_OPTIONS="--pair 4.2.4 5.0.1 --write")
	@$(PY) -m longtests.releases $(RELEASES_OPTIONS)

.PHONY: model
model: venv ## every interleaving of claims, leases, acks and take-over in small systems, by the engine's own state machines; a table
	@$(PY) -m longtests.model $(MODEL_OPTIONS)

.PHONY: scale
scale: venv ## 200 pools and 2,000 bindings on a separate API server: docs/explanation/scale.md (SCALE_OPTIONS=--write)
	@$(PY) -m longtests.scale $(SCALE_OPTIONS)

.PHONY: test-two-clusters test-upgrade
test-two-clusters: venv ## two Kubernetes clusters with one manifest on one Pulsar, as root: the second pool is refused; deleting it does not affect the first
	@$(PY) -m pytest -m '' $(PYTEST_OPTIONS) lab/longtests/second_day/test_two_clusters.py
test-upgrade: venv ## operator and engine of a version before to this one, under traffic, as root (FROM=COMMIT; default: the newest tag)
	@$(PY) -m pytest -m '' $(PYTEST_OPTIONS) lab/longtests/second_day/test_upgrade.py $(if $(FROM),--upgrade-from=$(FROM))

.PHONY: test-release
test-release: venv ## a release installed from its files and a registry alone, as root: first message timed, rollback with 0 lost (OUT=FOLDER RELEASE_WALK_OPTIONS=--write)
	@$(PY) -m longtests.release_walk $(if $(filter command environment,$(origin OUT)),--release '$(OUT)') $(RELEASE_WALK_OPTIONS)

.PHONY: test-spark
test-spark: venv ## data source and exports, long: random workloads against a stock reader, kills of drivers and workers in mid-batch
	@$(PY) -m pytest -o faulthandler_timeout=1500 $(PYTEST_OPTIONS) tests/integration/spark
.PHONY: export-soak
export-soak: venv ## a continuous export: memory, checkpoint, log and lag stay flat (MINUTES=180 EXPORT_SOAK_OPTIONS="--format delta --write")
	@$(PY) -m longtests.export_soak --minutes $(if $(filter file,$(origin MINUTES)),180,$(MINUTES)) $(EXPORT_SOAK_OPTIONS)

.PHONY: transactions-memory
transactions-memory: venv ## memory of a stream's planner over a topic with 1,000 transactions a second, for half an hour (TRANSACTIONS_OPTIONS="--minutes 15 --write")
	@$(PY) -m longtests.transactions $(TRANSACTIONS_OPTIONS)

.PHONY: iceberg-growth
iceberg-growth: venv ## metadata of an Iceberg table over 10,000 commits of an export: docs/how-to/spark-export.md (ICEBERG_GROWTH_OPTIONS=--write)
	@$(PY) -m longtests.iceberg_growth $(ICEBERG_GROWTH_OPTIONS)

.PHONY: spark-versions
spark-versions: venv ## the data source on Spark 4.0, 4.1 and 4.3 (SPARK_VERSIONS_OPTIONS="--only 4.1")
	@$(PY) -m longtests.spark_versions $(SPARK_VERSIONS_OPTIONS)

.PHONY: chaos soak
chaos: venv ## random faults on a pool, owners, bookies and ZooKeeper in network namespaces, as root (SEED= MINUTES=15 CHAOS_OPTIONS=--write)
	@$(PY) -m longtests.chaos $(if $(SEED),--seed $(SEED)) --minutes $(if $(filter file,$(origin MINUTES)),15,$(MINUTES)) $(CHAOS_OPTIONS)
soak: venv ## the same at a steady load with a fault per minute: memory, files, tasks and latency stay flat (SEED= MINUTES=120)
	@$(PY) -m longtests.chaos --soak $(if $(SEED),--seed $(SEED)) --minutes $(if $(filter file,$(origin MINUTES)),120,$(MINUTES)) $(CHAOS_OPTIONS)

.PHONY: newest
newest: venv ## versions in the registries that are newer than those of the tests; once a month
	@$(PY) -m devstack.newest

.PHONY: test-slow coverage shape
test-slow: venv ## tests that wait long, and are left out of the others (those of Spark: test-spark)
	@$(PY) -m pytest -m slow --ignore=tests/integration/spark $(PYTEST_OPTIONS) tests/unit lab/tests tests/integration
coverage: venv ## lines and branches that no unit test runs, of each file; slower than make test-unit (COVERAGE_TESTS=tests/unit/spark)
	@$(PY) -m pytest -m "not slow" --cov --cov-report=term-missing $(PYTEST_OPTIONS) $(or $(COVERAGE_TESTS),tests/unit)
shape: venv ## files of each folder, largest files, repeated lines, import circles; fails on a circle
	@$(PY) -m longtests.shape $(SHAPE_OPTIONS)
