"""Container images of the project, built by Docker where its engine runs and by buildah where it does not."""
