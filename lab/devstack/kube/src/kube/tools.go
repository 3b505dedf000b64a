//go:build tools

// Package tools names the programs that are built straight from their modules, so that go.mod keeps them.
package tools

import (
	_ "helm.sh/helm/v3/cmd/helm"
)
