"""Tests on several Kubernetes clusters at once, or over two versions of the project."""
