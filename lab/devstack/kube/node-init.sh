#!/bin/bash
# The first process of a node: `unshare` starts it in new mount, network, pid, uts and ipc namespaces. It gives the node
# its own /run, /var/lib and /var/log and then only waits and reaps: when it is killed, the kernel ends every process of
# the node, and with the last of them go the node's mounts, links and routes.
# usage: node-init.sh FOLDER NAME ipv4|ipv6
set -eu
folder=$1 name=$2 family=$3

# Nothing that is mounted here is seen outside; pods share the node's mounts.
mount --make-rprivate /
mount --make-rshared /
mount --bind "$folder/run" /run
mount --bind "$folder/lib" /var/lib
mount --bind "$folder/log" /var/log
mkdir -p /run/containerd /run/lock /run/netns /var/lib/kubelet /var/lib/containerd /var/log/pods /var/log/containers

hostname "$name"
ip link set lo up
if [ "$family" = ipv6 ]; then
  echo 1 >/proc/sys/net/ipv6/conf/all/forwarding
else
  echo 1 >/proc/sys/net/ipv4/ip_forward
  [ ! -e /proc/sys/net/ipv6/conf/all/disable_ipv6 ] || echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6
fi
touch /run/init-ready

trap 'exit 0' TERM
while :; do
  sleep 3600 &
  wait $!
done
