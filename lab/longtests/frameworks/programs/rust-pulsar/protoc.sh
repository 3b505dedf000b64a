#!/bin/sh
# The build of the crate `pulsar` needs protoc: the one that the Python package grpcio-tools contains.
exec "$(dirname "$0")/protoc/bin/python" -m grpc_tools.protoc "$@"
