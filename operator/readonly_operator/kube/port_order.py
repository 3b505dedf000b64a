"""Order in which Services are applied so that a node port is free before another Service of the pool takes it. Pure.

The API server refuses a node port that any Service has. When the first node port of a pool changes by a little, each broker wants
the port of a neighbour. In another order the neighbour's Service would never be reached.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from readonly_operator.kube.kinds import SERVICE, Manifest, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


def in_port_order(desired: Sequence[Manifest], live: Iterable[Manifest]) -> list[Manifest]:
    """Return the desired objects with Services in the order in which they free each other's node ports.

    All other objects keep their places. Services that want each other's ports in a circle have no such order; the API server
    then refuses one of them, and names the port.

    Args:
        desired: the desired objects of a pool.
        live: its existing objects.
    """
    services = {_name(one): one for one in desired if kind_of(one) == SERVICE}
    holders = _holders(live)
    order = iter([services[name] for name in _freed_first(services, holders)])
    return [next(order) if kind_of(one) == SERVICE else one for one in desired]


def port_blockers(desired: Iterable[Manifest], live: Iterable[Manifest]) -> list[Manifest]:
    """Return the existing Services that are no longer desired and have node ports which a desired Service wants."""
    services = {_name(one): one for one in desired if kind_of(one) == SERVICE}
    ending = [one for one in live if kind_of(one) == SERVICE and _name(one) not in services]
    wanted = {port for one in services.values() for port in _node_ports(one)}
    return [one for one in ending if wanted.intersection(_node_ports(one))]


def _freed_first(services: Mapping[str, Manifest], holders: Mapping[tuple[int, str], str]) -> Iterator[str]:
    """Yield the names of Services; each after those that have a node port which it wants."""
    done, waiting = set[str](), dict[str, None]()
    for name in services:
        waiting[name] = None  # a stack without recursion: a pool may have 1000 brokers
        while waiting:
            top = next(reversed(waiting))
            blocker = next(
                (
                    holder
                    for port in _node_ports(services[top])
                    if (holder := holders.get(port)) in services and holder not in done and holder not in waiting
                ),
                None,
            )
            if blocker is not None:
                waiting[blocker] = None
                continue
            del waiting[top]
            if top not in done:
                done.add(top)
                yield top


def _holders(live: Iterable[Manifest]) -> dict[tuple[int, str], str]:
    return {port: _name(one) for one in live if kind_of(one) == SERVICE for port in _node_ports(one)}


def _node_ports(service: Manifest) -> list[tuple[int, str]]:
    ports = (service.get("spec") or {}).get("ports") or ()
    return [(port["nodePort"], port.get("protocol") or "TCP") for port in ports if port.get("nodePort")]


def _name(manifest: Manifest) -> str:
    return str(manifest["metadata"]["name"])
