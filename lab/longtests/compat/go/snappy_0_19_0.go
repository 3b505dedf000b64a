//go:build client_0_19_0

package main

import "github.com/apache/pulsar-client-go/pulsar"

func snappy() pulsar.CompressionType {
	return pulsar.SNAPPY
}
