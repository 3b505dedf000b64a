# A real Pulsar as processes on this machine. PULSAR_UP="--version 3.3.6 --name old" passes options on.
.PHONY: distribution pulsar-up pulsar-down
distribution: $(STAMP) ## fetch, verify and unpack the stock Pulsar distribution
	@$(PY) -m devstack pulsar fetch
pulsar-up: packages-demo $(STAMP) ## start ZooKeeper, 3 bookies and 2 brokers on 127.0.0.1 (PULSAR_UP=options)
	@$(PY) -m devstack pulsar up $(PULSAR_UP)
pulsar-down: $(STAMP) ## stop them (PULSAR_DOWN=--purge forgets their data)
	@$(PY) -m devstack pulsar down $(PULSAR_DOWN)
