"""A release: packages, images, chart, manifests, bills of materials, checksums and provenance, the same from the same commit."""
