# Kubernetes, images and the source cluster; included by the Makefile, which sets PY.

DEVSTACK := $(PY) -m devstack
KUBE_PACKAGES := lab/devstack/kube/debian-packages.txt

.PHONY: kube-programs kube-up kube-down images writer-up writer-down clean-kube
kube-programs: $(STAMP) ## build the local Kubernetes' programs (minutes, once)
	@$(DEVSTACK) kube build
kube-up: $(STAMP) ## a Kubernetes: kind where a Docker engine runs, else a local node
	@$(DEVSTACK) kube up
kube-down: $(STAMP) ## end it; `make kube-up` brings the same one back
	@$(DEVSTACK) kube down
images: $(STAMP) ## build the container images whose sources have changed
	@$(DEVSTACK) image build all
writer-up: kube-up ## a stock source Pulsar inside the Kubernetes
	@$(DEVSTACK) writer up
writer-down: $(STAMP) ## delete the source Pulsar and its data
	@$(DEVSTACK) writer down
clean-kube: $(STAMP) ## end the Kubernetes and forget its state; programs and images stay cached
	@$(DEVSTACK) kube down --purge
