# As the devstack's, but for the user: kubeadm's Deployment lets it bind port 53 by a capability of root.
FROM scratch
COPY coredns /coredns
ENTRYPOINT ["/coredns"]
