# The long checks. They are not part of `make test`; oracle, fuzz and hostile have a short form there, churn and compat one of the nightly tests.
SEED ?=
ENTRIES ?= 200000
MINUTES ?= 10

.PHONY: oracle faults fuzz
oracle: $(STAMP) ## random workloads: storage against the owner's messages, byte for byte (SEED= ENTRIES=200000)
	@$(PY) -m longtests.oracle $(if $(SEED),--seed $(SEED)) --entries $(ENTRIES)
faults: $(STAMP) ## kill, stall and corrupt servers under readers at the tail, each 3 times; a table of pauses (FAULTS_OPTIONS=--write)
	@$(PY) -m longtests.faults $(FAULTS_OPTIONS)
fuzz: $(STAMP) ## every parser against damaged input, MINUTES=10 each
	@$(PY) -m longtests.fuzz --minutes $(MINUTES) $(FUZZ_OPTIONS)

.PHONY: hostile
hostile: $(STAMP) ## raw-socket clients that break the protocol, at an owner and at a pool: docs/testing/hostile-clients.md (HOSTILE_OPTIONS=--write or --local-cursors)
	@$(PY) -m longtests.hostile $(HOSTILE_OPTIONS)

.PHONY: compat
compat: $(STAMP) ## stock clients of three languages at the owner and through a pool: docs/reference/compatibility.md (COMPAT_OPTIONS=--write)
	@$(PY) -m longtests.compat $(COMPAT_OPTIONS)
.PHONY: frameworks
frameworks: $(STAMP) ## programs of frameworks at the owner and through a pool, also while servers are disturbed: docs/reference/frameworks.md (FRAMEWORKS_OPTIONS=--write)
	@$(PY) -m longtests.frameworks $(FRAMEWORKS_OPTIONS)
.PHONY: compat-drivers
compat-drivers: $(STAMP) ## tests of the drivers of make compat, each operation on a stock cluster
	@$(PY) -m pytest lab/longtests/compat/test_drivers.py

.PHONY: churn owner-kill
churn: $(STAMP) ## consumers connect and disconnect at a pool whose brokers are killed (SEED= MINUTES=10 CHURN_OPTIONS=--direct)
	@$(PY) -m longtests.churn $(if $(SEED),--seed $(SEED)) --minutes $(MINUTES) $(CHURN_OPTIONS)
owner-kill: $(STAMP) ## kill -9 of an owner under 100 consumers, through a pool and directly; a table of gaps (OWNER_KILL_OPTIONS=--write)
	@$(PY) -m longtests.churn.owner_kill $(OWNER_KILL_OPTIONS)

.PHONY: matrix
matrix: $(STAMP) ## every release of Pulsar with integration, oracle, churn, faults and compat: docs/reference/releases.md (MATRIX_OPTIONS=--help)
	@$(PY) -m longtests.matrix --minutes $(MINUTES) $(MATRIX_OPTIONS)

.PHONY: model
model: $(STAMP) ## every interleaving of claims, leases, acks and take-over in small systems, by the engine's own state machines; a table
	@$(PY) -m longtests.model $(MODEL_OPTIONS)

.PHONY: scale
scale: $(STAMP) ## 200 pools and 2,000 bindings on a separate API server: docs/explanation/scale.md (SCALE_OPTIONS=--write)
	@$(PY) -m longtests.scale $(SCALE_OPTIONS)

.PHONY: test-two-clusters test-upgrade
test-two-clusters: $(STAMP) ## two Kubernetes clusters with one manifest on one Pulsar, as root: the second pool is refused; deleting it does not affect the first
	@$(PY) -m pytest -m '' $(PYTEST_OPTIONS) lab/longtests/second_day/test_two_clusters.py
test-upgrade: $(STAMP) ## operator and engine of a version before to this one, under traffic, as root (FROM=COMMIT; default: the newest tag)
	@$(PY) -m pytest -m '' $(PYTEST_OPTIONS) lab/longtests/second_day/test_upgrade.py $(if $(FROM),--upgrade-from=$(FROM))

.PHONY: test-release
test-release: $(STAMP) ## a release installed from its files and a registry alone, as root: first message timed, rollback with 0 lost (OUT=FOLDER RELEASE_WALK_OPTIONS=--write)
	@$(PY) -m longtests.release_walk $(if $(filter command environment,$(origin OUT)),--release '$(OUT)') $(RELEASE_WALK_OPTIONS)

.PHONY: test-spark
test-spark: $(STAMP) ## data source and exports, long: random workloads against a stock reader, kills of drivers and workers in mid-batch
	@$(PY) -m pytest -o faulthandler_timeout=1500 $(PYTEST_OPTIONS) tests/integration/test_spark*.py
.PHONY: export-soak
export-soak: $(STAMP) ## a continuous export: memory, checkpoint, log and lag stay flat (MINUTES=180 EXPORT_SOAK_OPTIONS="--format delta --write")
	@$(PY) -m longtests.export_soak --minutes $(if $(filter file,$(origin MINUTES)),180,$(MINUTES)) $(EXPORT_SOAK_OPTIONS)

.PHONY: spark-versions
spark-versions: $(STAMP) ## the data source on Spark 4.0, 4.1 and 4.3 (SPARK_VERSIONS_OPTIONS="--only 4.1")
	@$(PY) -m longtests.spark_versions $(SPARK_VERSIONS_OPTIONS)

.PHONY: chaos soak
chaos: $(STAMP) ## random faults on a pool, owners, bookies and ZooKeeper in network namespaces, as root (SEED= MINUTES=15 CHAOS_OPTIONS=--write)
	@$(PY) -m longtests.chaos $(if $(SEED),--seed $(SEED)) --minutes $(if $(filter file,$(origin MINUTES)),15,$(MINUTES)) $(CHAOS_OPTIONS)
soak: $(STAMP) ## the same at a steady load with a fault per minute: memory, files, tasks and latency stay flat (SEED= MINUTES=120)
	@$(PY) -m longtests.chaos --soak $(if $(SEED),--seed $(SEED)) --minutes $(if $(filter file,$(origin MINUTES)),120,$(MINUTES)) $(CHAOS_OPTIONS)

.PHONY: newest
newest: $(STAMP) ## versions in the registries that are newer than those of the tests; once a month
	@$(PY) -m devstack.newest
