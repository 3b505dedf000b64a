"""The Grafana dashboard, generated: names of metrics, building blocks, and the rows of panels."""
