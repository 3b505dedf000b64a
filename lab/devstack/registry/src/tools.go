//go:build tools

// Package registry names the program that is built from modules.
package registry

import _ "github.com/distribution/distribution/v3/cmd/registry"
