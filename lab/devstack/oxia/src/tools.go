//go:build tools

// Package oxia names the program that is built from modules.
package oxia

import _ "github.com/oxia-db/oxia/cmd"
