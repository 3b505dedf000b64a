// Command coredns is CoreDNS with only the plugins that a cluster's Corefile uses.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loadbalance"
	_ "github.com/coredns/coredns/plugin/metrics"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/reload"
	_ "github.com/coredns/coredns/plugin/template"
)

func init() {
	// The order in which a query passes them; the list must name exactly the plugins imported above.
	dnsserver.Directives = []string{
		"reload", "health", "ready", "prometheus", "errors", "cache", "loadbalance", "kubernetes", "template",
	}
}

func main() { coremain.Run() }
