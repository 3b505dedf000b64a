"""What clients talk to: connections, lookup, subscriptions, dispatchers, cursors, and the fleet of which this broker is one."""
