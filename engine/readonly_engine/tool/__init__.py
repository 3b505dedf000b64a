"""`pulsar-readonly topic`: lists, shows and reads topics straight from storage; no broker hears of it."""
