# Kubernetes, images and the source cluster.
.PHONY: kube-programs kube-up kube-down images writer-up writer-down clean-kube
kube-programs: venv ## build the local Kubernetes' programs (minutes, once)
	@$(DEVSTACK) kube build
kube-up: venv ## a Kubernetes: kind where a Docker engine runs, else a local node
	@$(DEVSTACK) kube up
kube-down: venv ## end it; `make -C lab kube-up` brings the same one back
	@$(DEVSTACK) kube down
images: venv ## build the container images whose sources have changed
	@$(DEVSTACK) image build all
writer-up: kube-up ## a stock source Pulsar inside the Kubernetes
	@$(DEVSTACK) writer up
writer-down: venv ## delete the source Pulsar and its data
	@$(DEVSTACK) writer down
clean-kube: venv ## end the Kubernetes and forget its state; programs and images stay cached
	@$(DEVSTACK) kube down --purge

.PHONY: test-kind
NODES ?= 1
test-kind: venv ## `make test-e2e` on real kind of one node, on a Docker engine in namespaces of its own, as root (E2E_TESTS=tests/e2e/test_pool.py)
	@$(DEVSTACK) kind up --nodes $(NODES)
	@$(DEVSTACK) kind run -- make test-e2e NODES=$(NODES)
