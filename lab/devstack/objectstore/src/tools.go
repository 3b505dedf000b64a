//go:build tools

// Package objectstore names the program that is built from modules.
package objectstore

import _ "github.com/minio/minio"
