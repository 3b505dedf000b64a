# A real Pulsar as processes on this machine. PULSAR_UP="--version 3.3.6 --name old" passes options on.
.PHONY: distribution pulsar-up pulsar-down
distribution: venv ## fetch, verify and unpack the stock Pulsar distribution
	@$(DEVSTACK) pulsar fetch
pulsar-up: packages-demo venv ## start ZooKeeper, 3 bookies and 2 brokers on 127.0.0.1 (PULSAR_UP=options)
	@$(DEVSTACK) pulsar up $(PULSAR_UP)
pulsar-down: venv ## stop them (PULSAR_DOWN=--purge forgets their data)
	@$(DEVSTACK) pulsar down $(PULSAR_DOWN)
