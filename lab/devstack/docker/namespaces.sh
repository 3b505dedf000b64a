#!/bin/bash
# The first process of the engine's namespaces: `unshare` starts it in new mount, network, pid, uts and ipc namespaces.
# It only waits and reaps. When it is killed, the kernel ends every process of the engine and of its containers, and with
# the last of them go their mounts, links and network rules.
# usage: namespaces.sh FOLDER
set -eu
hostname pulsar-readonly-docker
ip link set lo up
# A default route that leads nowhere (RFC 5737): an API server takes its address from the link of this route.
ip link add uplink0 type bridge
ip addr add 192.0.2.2/24 dev uplink0
ip link set uplink0 up
ip route add default via 192.0.2.1
mount -t tmpfs -o mode=755 tmpfs /run
mkdir /run/lock
touch "$1/ready"

trap 'exit 0' TERM
while :; do
  sleep 3600 &
  wait $!
done
