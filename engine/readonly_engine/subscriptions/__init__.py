"""`pulsar-readonly subscriptions`: list, show, move and delete the subscriptions whose cursors a pool keeps itself."""
