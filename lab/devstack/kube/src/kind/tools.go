//go:build tools

// Package tools names the programs that are built straight from their modules, so that go.mod keeps them.
package tools

import (
	_ "k8s.io/kubernetes/cmd/kubeadm"
	_ "sigs.k8s.io/cri-tools/cmd/crictl"
	_ "sigs.k8s.io/kind"
)
