# The project's images. Targets: engine (a read-only broker), operator, and spark (exports of topics, and executors of Spark).
#   docker build --target engine -t localhost/pulsar-readonly/engine:dev .
#   python -m devstack image build engine        (Docker where its engine runs, else buildah)
# All run as user 65532 of group 0, and as any other user of group 0, as OpenShift chooses it: their files are readable for all.
# Engine and operator need no home and no writable file system, spark a writable /tmp.
# Releases set SOURCE_DATE_EPOCH (time of the commit): bytecode then depends on its source alone, not on the time of the build.
ARG BASE=python:3.11-slim-bookworm

# The project's own wheel, made with a locked build tool. Only this and the last step of each target depend on the sources.
FROM ${BASE} AS wheel
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PYTHONHASHSEED=0
ARG SOURCE_DATE_EPOCH
COPY requirements/build.txt /src/requirements/
RUN python3 -m venv --without-pip /build && \
    python3 -m pip --python /build/bin/python install --quiet --require-hashes -r /src/requirements/build.txt
# For the modules in C, in this stage alone. Without them the image works, slower.
RUN headers=$(python3 -c 'import os, sysconfig; at = sysconfig.get_path("include"); print("" if os.path.exists(at + "/Python.h") else "python3-dev")') && \
    { apt-get update -qq && apt-get install -qq -y --no-install-recommends gcc libc6-dev $headers >/dev/null; } || \
    echo "there is no C compiler to be had: the wheel is made without modules in C"
COPY pyproject.toml LICENSE /src/
COPY engine /src/engine
COPY operator /src/operator
COPY spark /src/spark
RUN CFLAGS=-g0 python3 -m pip --python /build/bin/python wheel --quiet --no-deps --no-build-isolation -w /wheels /src

# One virtual environment for each target: the locked third-party packages first, then the wheel.
FROM ${BASE} AS engine-venv
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PYTHONHASHSEED=0
ARG SOURCE_DATE_EPOCH
COPY requirements/engine.txt /src/requirements/
RUN python3 -m venv --without-pip /venv && \
    python3 -m pip --python /venv/bin/python install --quiet --require-hashes -r /src/requirements/engine.txt
COPY --from=wheel /wheels /wheels
RUN python3 -m pip --python /venv/bin/python install --quiet --no-deps --no-index /wheels/*.whl

FROM ${BASE} AS engine
LABEL org.opencontainers.image.title="pulsar-readonly engine" \
      org.opencontainers.image.description="A read-only broker for Apache Pulsar" \
      org.opencontainers.image.licenses="Apache-2.0"
ENV PATH=/venv/bin:/usr/local/bin:/usr/bin:/bin PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
COPY --from=engine-venv /venv /venv
# The commit of the sources, for --version and the status page: --build-arg COMMIT=$(git rev-parse HEAD)
ARG COMMIT=
ENV PULSAR_READONLY_COMMIT=$COMMIT
USER 65532:0
WORKDIR /
EXPOSE 6650 8080
ENTRYPOINT ["pulsar-readonly"]
CMD ["serve"]

FROM ${BASE} AS operator-venv
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PYTHONHASHSEED=0
ARG SOURCE_DATE_EPOCH
COPY requirements/operator.txt /src/requirements/
RUN python3 -m venv --without-pip /venv && \
    python3 -m pip --python /venv/bin/python install --quiet --require-hashes -r /src/requirements/operator.txt
COPY --from=wheel /wheels /wheels
RUN python3 -m pip --python /venv/bin/python install --quiet --no-deps --no-index /wheels/*.whl

FROM ${BASE} AS operator
LABEL org.opencontainers.image.title="pulsar-readonly operator" \
      org.opencontainers.image.description="Runs pools of read-only brokers for Apache Pulsar in Kubernetes" \
      org.opencontainers.image.licenses="Apache-2.0"
ENV PATH=/venv/bin:/usr/local/bin:/usr/bin:/bin PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
COPY --from=operator-venv /venv /venv
ARG COMMIT=
ENV PULSAR_READONLY_COMMIT=$COMMIT
USER 65532:0
WORKDIR /
EXPOSE 8080
ENTRYPOINT ["pulsar-readonly"]
CMD ["operator"]

FROM ${BASE} AS spark-venv
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PYTHONHASHSEED=0
ARG SOURCE_DATE_EPOCH
COPY requirements/spark.txt /src/requirements/
RUN python3 -m venv --without-pip /venv && \
    python3 -m pip --python /venv/bin/python install --quiet --require-hashes -r /src/requirements/spark.txt
COPY --from=wheel /wheels /wheels
RUN python3 -m pip --python /venv/bin/python install --quiet --no-deps --no-index /wheels/*.whl

# The certificate authorities of Debian as a keystore of Java, without the time of the build that keytool would put into it.
FROM ${BASE} AS spark-trust
ARG SOURCE_DATE_EPOCH
RUN apt-get update -qq && apt-get install -qq -y --no-install-recommends ca-certificates p11-kit p11-kit-modules && \
    trust extract --format=java-cacerts --filter=ca-anchors --purpose=server-auth /cacerts && \
    { test "$(stat -c %s /cacerts)" -gt 100000 || { echo "p11-kit found no certificate authorities" >&2; exit 1; }; } && \
    chmod 644 /cacerts

# Driver, executor or a whole local Spark. `python -m devstack image build spark` puts the pinned jars of Delta and S3A beside
# the sources; without them the image exports to Parquet and Iceberg, and not to s3a://.
FROM ${BASE} AS spark
LABEL org.opencontainers.image.title="pulsar-readonly spark" \
      org.opencontainers.image.description="Reads topics of Apache Pulsar from storage with Apache Spark, and exports them" \
      org.opencontainers.image.licenses="Apache-2.0"
# The JRE's package wants a folder that slim images lack; Spark's programs look for a user's name and for ps.
RUN mkdir -p /usr/share/man/man1 && apt-get update -qq && \
    apt-get install -qq -y --no-install-recommends openjdk-17-jre-headless procps tini && \
    rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/ldconfig/aux-cache /etc/ssl/certs/java/cacerts \
        /var/log/apt /var/log/dpkg.log /var/log/alternatives.log && \
    useradd --uid 65532 --user-group --no-create-home --home-dir /tmp spark
ENV PATH=/venv/bin:/usr/local/bin:/usr/bin:/bin PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 HOME=/tmp \
    SPARK_HOME=/opt/spark PYSPARK_PYTHON=/venv/bin/python PULSAR_READONLY_SPARK_JARS=/opt/pulsar-readonly/jars
COPY --from=spark-trust /cacerts /etc/ssl/certs/java/
COPY --from=spark-venv /venv /venv
COPY LICENSE jar[s]/*.jar /opt/pulsar-readonly/jars/
COPY spark/image/export.py /opt/pulsar-readonly/
COPY spark/image/entrypoint /opt/entrypoint
# Where operators of Spark on Kubernetes expect it.
RUN ln -s /venv/lib/python3*/site-packages/pyspark /opt/spark
ARG COMMIT=
ENV PULSAR_READONLY_COMMIT=$COMMIT
USER 65532:0
WORKDIR /tmp
ENTRYPOINT ["/usr/bin/tini", "--", "/opt/entrypoint"]
CMD ["export", "--help"]
