"""`GET /metrics`, for Prometheus.

Requests are counted as they end, which costs some microseconds each. What is in the store is counted when Prometheus
asks. With several workers, Prometheus reaches any one of them; so they share their counts through files
(prometheus-client's multiprocess mode, which the parent process sets up), and each answers for all.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from ..._version import VERSION
from ...access.permission import require
from ...errors import EngramError
from . import calls, openapi
from .answers import Answer
from .calls import Call
from .logs import RequestLine

if TYPE_CHECKING:
    from fastapi import FastAPI

    from ...client import Engram
    from .service import Service

PATH = "/metrics"
#: The folder in which several workers share their counts.
SHARED = "PROMETHEUS_MULTIPROC_DIR"
#: Workspaces whose contents are counted, the most recently used first. A scrape must not take long.
_MOST_WORKSPACES = 100
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)


class Metrics:
    def __init__(self, service: Service) -> None:
        self._service = service
        # Otherwise every counter has a second series with the time of its first count.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        own = CollectorRegistry()
        self._requests = Counter(
            "engram_requests", "Requests by route and status.", ("method", "route", "status"), registry=own
        )
        self._seconds = Histogram(
            "engram_request_seconds", "How long requests took.", ("route",), buckets=_BUCKETS, registry=own
        )
        self._streams = Gauge("engram_event_streams", "Open event streams.", registry=own, multiprocess_mode="livesum")
        #: Looking up a child by its labels takes longer than counting.
        self._counted: dict[tuple[str, str, int], Any] = {}
        self._timed: dict[str, Any] = {}
        self._registry = own
        if SHARED in os.environ:
            self._registry = CollectorRegistry()
            MultiProcessCollector(self._registry)  # type: ignore[no-untyped-call]
        self._registry.register(_Store(service.eng))

    def count(self, line: RequestLine) -> None:
        """Count a request that has ended."""
        key = line.method, line.route, line.status
        counter = self._counted.get(key)
        if counter is None:
            counter = self._counted[key] = self._requests.labels(line.method, line.route, str(line.status))
        counter.inc()
        timer = self._timed.get(line.route)
        if timer is None:
            timer = self._timed[line.route] = self._seconds.labels(line.route)
        timer.observe(line.seconds)

    def streams(self, number: int) -> None:
        """Note how many event streams are open."""
        self._streams.set(number)

    def show(self, call: Call) -> Answer:
        # They are about all workspaces.
        require(call.caller.grant(), "read", None)
        shown = generate_latest(self._registry)
        return Answer(200, shown, ((b"content-type", b"text/plain; version=0.0.4; charset=utf-8"),))


class _Store(Collector):
    """Counts of what is in the store, made when they are asked for."""

    def __init__(self, eng: Engram) -> None:
        self._eng = eng

    def describe(self) -> Iterator[Any]:
        # Registering must not read the store.
        return iter(())

    def collect(self) -> Iterator[Any]:
        info = GaugeMetricFamily("engram_info", "The version of the server.", labels=["version"])
        info.add_metric([VERSION], 1)
        yield info
        try:
            yield from self._families()
        except EngramError:
            return  # the store cannot be read now, and the other numbers still can

    def _families(self) -> list[Any]:
        per = ["workspace"]
        sessions = GaugeMetricFamily("engram_sessions", "Sessions by status.", labels=[*per, "status"])
        leases = GaugeMetricFamily("engram_leases", "Leases that are held.", labels=per)
        memories = GaugeMetricFamily("engram_memories", "Active memories.", labels=per)
        queue = GaugeMetricFamily("engram_embedding_queue", "Items that wait for their embedding.", labels=per)
        model_calls = CounterMetricFamily("engram_dream_calls", "Calls to a model by passes.", labels=per)
        tokens = CounterMetricFamily("engram_dream_tokens", "Tokens used by passes.", labels=[*per, "direction"])
        found = sorted(self._eng.workspaces(), key=lambda each: each.active_at or "", reverse=True)
        size = 0
        for info in found[:_MOST_WORKSPACES]:
            eng = self._eng.workspace(info.name)
            stats = eng.sessions.stats()
            size = stats.store_bytes
            for status in ("active", "stale", "idle", "completed", "abandoned"):
                sessions.add_metric([info.name, status], getattr(stats, status))
            leases.add_metric([info.name], stats.leases)
            memories.add_metric([info.name], sum(stats.memories.values()))
            queue.add_metric([info.name], stats.embedding_queue)
            spent = eng.usage(_ALL_DAYS)
            model_calls.add_metric([info.name], sum(each.calls for each in spent))
            tokens.add_metric([info.name, "input"], sum(each.input_tokens for each in spent))
            tokens.add_metric([info.name, "output"], sum(each.output_tokens for each in spent))
        store = GaugeMetricFamily("engram_store_bytes", "Size of the store on the disk.", value=size)
        workspaces = GaugeMetricFamily("engram_workspaces", "Workspaces in the store.", value=len(found))
        return [sessions, leases, memories, queue, model_calls, tokens, store, workspaces]


#: As far back as usage is kept.
_ALL_DAYS = 3_650


def add(app: FastAPI, service: Service) -> None:
    endpoint = calls.Endpoint(service, PATH, "read", service.metrics.show)
    calls.add(app, PATH, ["GET"], endpoint)


def describe() -> openapi.Path:
    content = {"text/plain": {"schema": {"type": "string"}, "examples": {"some": {"value": "engram_leases 3.0\n"}}}}
    answer = {"description": "Numbers in the format of Prometheus.", "content": content}
    return openapi.Path(
        PATH, "GET", "Numbers for Prometheus. Needs a token for all workspaces.", "workspace", responses={"200": answer}
    )
