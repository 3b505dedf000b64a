module devstack/prometheus

go 1.26.8

require github.com/prometheus/prometheus v0.313.5
