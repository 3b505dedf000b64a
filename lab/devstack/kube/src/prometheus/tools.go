//go:build tools

// Package tools names the programs that are built straight from their modules, so that go.mod keeps them.
package tools

import (
	_ "github.com/prometheus/prometheus/cmd/promtool"
)
