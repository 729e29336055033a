# One image for Airflow's components and for Spark: a task and its driver must run the same code.
FROM python:3.11.14-slim-bookworm AS packages

# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends binutils openjdk-17-jre-headless tini \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 50000 strata

WORKDIR /opt/strata
COPY scripts/uv.txt requirements.txt requirements-dev.txt requirements-containers.txt ./
# --no-deps: the lock is the whole closure, but for pyspark-client, which pyproject.toml keeps out.
RUN pip install --no-cache-dir --require-hashes --no-deps -r uv.txt \
    && uv pip install --system --no-cache --no-deps --require-hashes \
        -r requirements.txt -r requirements-containers.txt

# The wheel, with the kernels linked for this processor.
FROM packages AS wheel
COPY pyproject.toml setup.py README.md LICENSE ./
COPY include include
COPY scripts scripts
RUN uv pip install --system --no-cache --no-deps --build-constraints requirements-dev.txt -e . \
    && python -m scripts.startup.link_kernels \
    && uv build --wheel --build-constraints requirements-dev.txt --out-dir /wheels

# What runs: the wheel, as anybody installs it, the file of DAGs, and the supervisor of the components.
FROM packages
COPY --from=wheel /wheels /wheels
COPY dags dags
COPY scripts scripts
RUN uv pip install --system --no-cache --no-deps /wheels/*.whl \
    && python -m scripts.startup.warm_kernels \
    && python -m scripts.startup.share_classes \
    && install -d -o strata -g strata /strata

USER 50000
ENV STRATA_STATE=/strata STRATA_CONTAINER=1 PYTHONPATH=/opt/strata
VOLUME /strata
# The same entry as `make up` uses; the compose file names the component, and how Spark is started.
ENTRYPOINT ["tini", "--", "python", "-m", "scripts.fleet", "run"]
