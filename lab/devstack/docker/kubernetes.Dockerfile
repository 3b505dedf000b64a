# All control plane programs, and kube-proxy with nft, in one image that has all their names.
FROM scratch
COPY kubernetes /
ENV PATH=/usr/local/bin:/usr/sbin:/bin
