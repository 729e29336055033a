"""A source's numbers in Airflow's metrics: a collector gets them by OpenTelemetry and by StatsD, and a task outlives a
store that is away."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.store.database import open_store
from tests.schema.streams import Stream, track

pytestmark = pytest.mark.airflow

SEND = """
import os
from airflow.sdk.observability import stats
from airflow.sdk.observability.metrics import stats_utils
from strata_cdc.airflow.steps import send_metrics
from strata_cdc.config.settings import load_settings

stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=False)
for source in ("shop", "away"):
    send_metrics(source, load_settings(os.environ))
"""


@pytest.fixture
def collector():
    """Address of a collector, and what it has received."""
    received = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            request = ExportMetricsServiceRequest()
            request.ParseFromString(self.rfile.read(int(self.headers["Content-Length"])))
            received.append(request)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1], received
    server.shutdown()
    server.server_close()


def send(folder, **variables):
    """Sends the numbers of a source, and of one whose store is away, as a task does."""
    store = f"sqlite:///{folder}/store.db"
    track(SchemaStore(open_store(store)), Stream(), "CREATE DATABASE d", "CREATE TABLE t (a INT)", source="shop")
    settings = folder / "strata.toml"
    settings.write_text(
        f'lake = "lake"\n[sources.shop]\nstore = "{store}"\nconnection = "c"\n'
        '[sources.away]\nstore_connection = "c"\nconnection = "c"\n'
    )
    environment = {
        **os.environ,
        "AIRFLOW_HOME": str(folder),
        "STRATA_SETTINGS": str(settings),
        "AIRFLOW_CONN_C": "mysql://u:hidden@127.0.0.1:1/s",
        "NO_PROXY": "127.0.0.1",
        **variables,
    }
    command = [sys.executable, "-c", SEND]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "away: no metrics are sent" in done.stdout + done.stderr
    assert "hidden" not in done.stdout + done.stderr


def test_a_collector_gets_what_is_known_of_each_source(collector, tmp_path):
    port, received = collector
    send(
        tmp_path,
        AIRFLOW__METRICS__OTEL_ON="True",
        OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{port}",
        OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf",
    )
    gauges = {
        metric.name: {attribute.key: attribute.value.string_value for attribute in point.attributes}
        for request in received
        for resource in request.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.gauge.data_points
    }
    assert {f"airflow.strata.{name}" for name in ("gap_count", "published_rows", "landed_transactions")} <= set(gauges)
    assert set(map(str, gauges.values())) == {"{'source': 'shop'}"}
    # What is not known is no number.
    assert "airflow.strata.purge_distance_seconds" not in gauges


def test_statsd_gets_the_same_with_the_source_as_a_tag(tmp_path):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.setblocking(False)
        send(
            tmp_path,
            AIRFLOW__METRICS__STATSD_ON="True",
            AIRFLOW__METRICS__STATSD_HOST="127.0.0.1",
            AIRFLOW__METRICS__STATSD_PORT=str(receiver.getsockname()[1]),
            AIRFLOW__METRICS__STATSD_INFLUXDB_ENABLED="True",
        )
        received = set()
        with suppress(BlockingIOError):
            while True:
                received.add(receiver.recv(4096).decode())
    assert {"airflow.strata.gap_count,source=shop:0|g", "airflow.strata.decoded_rows,source=shop:0|g"} <= received
    assert not [one for one in received if "purge_distance" in one or "source=away" in one]
