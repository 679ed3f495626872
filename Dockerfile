# The exporter on a slim Python: a virtual environment with its wheel and the pinned, hashed dependencies.
#   docker build -t azure-scheduled-events-exporter .
# A digest makes the build repeatable; the release workflow names the one of that day:
#   --build-arg BASE_IMAGE=docker.io/library/python:3.13-slim-bookworm@sha256:...
# pip's settings, such as a mirror, come in as a secret and stay in no layer: --secret id=pip.conf,src=FILE
# docs/container.md says how to run it.
ARG BASE_IMAGE=docker.io/library/python:3.13-slim-bookworm

FROM ${BASE_IMAGE} AS build
ENV PIP_CONFIG_FILE=/run/secrets/pip.conf PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /source
COPY requirements/build.txt requirements/run.txt requirements/
RUN --mount=type=secret,id=pip.conf \
    python3 -m venv /build \
 && python3 -m venv --without-pip /opt/azure-scheduled-events-exporter \
 && /build/bin/pip install --quiet --no-deps --require-hashes -r requirements/build.txt \
 && /build/bin/pip --python /opt/azure-scheduled-events-exporter/bin/python install --quiet --no-compile \
      --no-deps --only-binary :all: --require-hashes -r requirements/run.txt
COPY . .
# Bytecode is written now, and never checked against its sources: the root file system may be read-only.
RUN /build/bin/hatchling build --target wheel --directory /dist \
 && /build/bin/pip --python /opt/azure-scheduled-events-exporter/bin/python install --quiet --no-compile \
      --no-deps --no-index /dist/*.whl \
 && install -m 0644 deploy/container/healthcheck.py deploy/container/prepare_journal.py /opt/azure-scheduled-events-exporter/ \
 && /opt/azure-scheduled-events-exporter/bin/python -m compileall -q --invalidation-mode unchecked-hash \
      /opt/azure-scheduled-events-exporter/lib \
 && /opt/azure-scheduled-events-exporter/bin/azure-scheduled-events-exporter assets export /assets

FROM ${BASE_IMAGE}
COPY --from=build /opt/azure-scheduled-events-exporter /opt/azure-scheduled-events-exporter
COPY --from=build /assets /usr/share/azure-scheduled-events-exporter
# Official images come without the standard library's bytecode, which would be compiled anew at every start: what is
# imported here is compiled here.
RUN install -d -o 65532 -g 65532 -m 0700 /var/lib/azure-scheduled-events-exporter \
 && /opt/azure-scheduled-events-exporter/bin/python -c \
      "import azure_scheduled_events_exporter.commands.cli, azure_scheduled_events_exporter.commands.demo, azure_scheduled_events_exporter.service.daemon, azure_scheduled_events_exporter.simulator, azure_scheduled_events_exporter.tracing.otlp, ssl"
ENV PATH=/opt/azure-scheduled-events-exporter/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    AZURE_SCHEDULED_EVENTS_JOURNAL_PATH=/var/lib/azure-scheduled-events-exporter
VOLUME /var/lib/azure-scheduled-events-exporter
EXPOSE 10169
USER 65532:65532
ENTRYPOINT ["azure-scheduled-events-exporter"]
CMD ["run"]
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s --retries=3 \
    CMD ["/opt/azure-scheduled-events-exporter/bin/python", "-I", "/opt/azure-scheduled-events-exporter/healthcheck.py"]
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="azure-scheduled-events-exporter" \
      org.opencontainers.image.description="Azure VM maintenance, evictions and host failures as Prometheus metrics and OpenTelemetry traces" \
      org.opencontainers.image.url="https://github.com/azure-scheduled-events-exporter/azure-scheduled-events-exporter" \
      org.opencontainers.image.source="https://github.com/azure-scheduled-events-exporter/azure-scheduled-events-exporter" \
      org.opencontainers.image.documentation="https://github.com/azure-scheduled-events-exporter/azure-scheduled-events-exporter/blob/main/docs/container.md" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
