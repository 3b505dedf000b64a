//go:build client_0_14_0

package main

import "github.com/apache/pulsar-client-go/pulsar"

func snappy() pulsar.CompressionType {
	panic(unsupported("no compression with snappy"))
}
