# A node image for kind: Debian with systemd, kind's own files of its base image, and the devstack's programs and images.
ARG BASE
FROM $BASE
COPY base/ /
COPY node/ /
RUN chmod 755 /kind /kind/bin /kind/bin/* /usr/local/bin/* \
    && rm -f /lib/systemd/system/sysinit.target.wants/systemd-tmpfiles-setup.service \
        /lib/systemd/system/multi-user.target.wants/* /lib/systemd/system/local-fs.target.wants/* \
        /lib/systemd/system/basic.target.wants/* /lib/systemd/system/sockets.target.wants/*udev* \
        /lib/systemd/system/sockets.target.wants/*initctl* /etc/systemd/system/*.wants/* \
    && ln -sf /lib/systemd/systemd /sbin/init \
    && systemctl enable kubelet.service containerd.service undo-mount-hacks.service \
    && systemctl mask systemd-binfmt.service \
    && sed -i 's/restrict_oom_score_adj = false/restrict_oom_score_adj = true/' /etc/containerd/config.toml \
    && mkdir -p /etc/kubernetes/manifests \
    && ctr oci spec \
        | jq '.hooks.createContainer += [{path: "/kind/bin/mount-product-files.sh"}] | del(.process.rlimits)' \
        > /etc/containerd/cri-base.json
# The content of the images only: a node unpacks them at its start.
COPY images.tar /images.tar
RUN { containerd >/dev/null 2>&1 & } && for _ in $(seq 50); do ctr version >/dev/null 2>&1 && break; sleep 0.2; done \
    && ctr --namespace k8s.io images import --all-platforms --no-unpack --digests /images.tar \
    && pkill -x containerd && sleep 1
ENV container=docker
STOPSIGNAL SIGRTMIN+3
ENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"]
