# The service as an image: docs/deploying.md explains how to run it. Any builder can build it; BuildKit is not needed.
ARG PYTHON=3.11-slim-bookworm
# packages-with-traces adds the packages that OTEL_EXPORTER_OTLP_ENDPOINT needs.
ARG PACKAGES=packages

FROM python:${PYTHON} AS packages
ARG PACKAGES
COPY requirements.txt requirements-otel.txt /tmp/
# Wheels only, each checked against its hash: nothing is compiled and no package runs code here.
RUN ["python", "-m", "venv", "--without-pip", "/opt/venv"]
RUN if [ "$PACKAGES" = packages-with-traces ]; then set -- -r /tmp/requirements-otel.txt; fi; \
    python -m pip --python /opt/venv/bin/python install --no-cache-dir --disable-pip-version-check \
        --only-binary :all: --require-hashes -r /tmp/requirements.txt "$@"
COPY clients/python /tmp/clients/python
RUN ["/opt/venv/bin/python", "-m", "flit_core.wheel", "--outdir", "/opt/clients/python", "/tmp/clients/python"]

FROM python:${PYTHON}
LABEL org.opencontainers.image.title="petstore" \
      org.opencontainers.image.description="A pet store inventory service: a JSON API and a back office"
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    COUNTERS_DIR=/tmp/petstore
WORKDIR /app
COPY --from=packages /opt/venv /opt/venv
COPY manage.py CHANGELOG.md ./
COPY petstore petstore
COPY accounts accounts
COPY inventory inventory
COPY templates templates
COPY --from=packages /opt/clients build/clients
RUN ["python", "-m", "compileall", "-q", "/app"]
# Numeric, so that an orchestrator can verify that it is not root. It owns no files, and writes only to /tmp.
USER 10001:10001
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s --retries=3 \
    CMD ["python", "-m", "petstore.observability.healthcheck"]
ENTRYPOINT ["python", "manage.py"]
CMD ["serve", "--host", "0.0.0.0"]
