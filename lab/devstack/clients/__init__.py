"""Stock Pulsar clients, several releases of each language, as programs that `make -C lab compat` drives."""

from devstack.clients.drivers import command
from devstack.clients.versions import CLIENTS, ClientVersion

__all__ = ["CLIENTS", "ClientVersion", "command"]
