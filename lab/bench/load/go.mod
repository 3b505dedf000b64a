module pulsar-readonly/load

go 1.22
