from __future__ import annotations

import datetime
import inspect
import json
import re
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from conftest import Answer, Caller, serve

from muster_client import ApiError, AsyncClient, Client
from muster_client._http import parse_retry_after

MATCH = json.dumps({"websets_matched": ["codehost"], "person": {}})
BUSY = Answer('{"detail": "call again"}', 429, {"Retry-After": "7"})


def test_clients_have_one_method_per_operation() -> None:
    description = yaml.safe_load((Path(__file__).parents[2] / "openapi.yaml").read_text(encoding="utf-8"))
    operations = {
        re.sub("(?<=[a-z])(?=[A-Z])", "_", operation["operationId"].replace("OpenAPI", "Openapi")).lower()
        for path in description["paths"].values()
        for operation in path.values()
    }
    operations -= {"get_docs", "call_mcp"}  # pages, and a protocol of its own
    for kind in (Client, AsyncClient):
        methods = {name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}
        helpers = {"close", "aclose", "people", "companies", "search_pages", "wait_bulk", "bulk_results"}
        assert methods - helpers == operations


def test_clients_have_the_same_signatures() -> None:
    for name in vars(Client):
        if inspect.isfunction(vars(Client)[name]) and not re.search("close|__", name):
            sync, other = (inspect.signature(getattr(kind, name)) for kind in (Client, AsyncClient))
            assert sync.parameters == other.parameters, name


def test_request_has_key_json_and_random_idempotency_key(call: Caller) -> None:
    with serve(lambda _: Answer(MATCH)) as service:
        for _ in range(2):
            found = call(service.url, "enrich_person", codehost="jürgen", websets=["codehost"])
            assert found.value == json.loads(MATCH)
    first, second = service.requests
    assert (first.method, first.path) == ("POST", "/v1/person/enrich")
    assert json.loads(first.body) == {"codehost": "jürgen", "websets": ["codehost"]}
    assert first.headers["Authorization"] == "Bearer mk_live_x"
    assert first.headers["Content-Type"] == "application/json"
    assert re.fullmatch(r"muster-python/\d+\.\d+\.\d+", first.headers["User-Agent"])
    assert re.fullmatch("[0-9a-f-]{36}", first.headers["Idempotency-Key"])
    assert first.headers["Idempotency-Key"] != second.headers["Idempotency-Key"]


def test_base_url_may_have_a_path(call: Caller) -> None:
    with serve(lambda _: Answer("{}")) as service:
        call(service.url + "/muster/", "get_usage")
    assert service.requests[0].path == "/muster/v1/usage"


def test_get_sends_lists_and_omits_defaults(call: Caller) -> None:
    with serve(lambda _: Answer("{}")) as service:
        call(
            service.url,
            "get_codehost_person",
            "a b",
            addons=["network"],
            must_have=["repos", "bio"],
            fields=["bio"],
            max_credits=0,
        )
        call(service.url, "get_network_person", "https://network.example/in/x?y", dry_run=True)
    assert service.requests[0].path in (
        "/v1/webset/codehost/person?codehost=a%20b&addons=network&must_have=repos%2Cbio&fields=bio&max_credits=0",
        "/v1/webset/codehost/person?codehost=a+b&addons=network&must_have=repos%2Cbio&fields=bio&max_credits=0",
    )
    query = httpx.URL("http://x" + service.requests[1].path).params
    assert dict(query) == {"network": "https://network.example/in/x?y", "dry_run": "true"}
    assert "Idempotency-Key" not in service.requests[0].headers


@pytest.mark.parametrize("broken", [Answer(MATCH, missing=3), Answer(missing=-1)], ids=["truncated", "no response"])
def test_broken_response_is_retried_with_the_same_key(call: Caller, broken: Answer) -> None:
    with serve(lambda number: broken if number < 3 else Answer(MATCH)) as service:
        assert call(service.url, "enrich_person", codehost="x").value["websets_matched"] == ["codehost"]
    assert len({request.headers["Idempotency-Key"] for request in service.requests}) == 1
    assert call.waits == [0.25, 0.5, 1]


def test_broken_connection_is_raised_after_the_retries(call: Caller) -> None:
    with serve(lambda _: Answer(missing=-1)) as service, pytest.raises(httpx.RemoteProtocolError):
        call(service.url, "get_usage", client={"retries": 2})
    assert len(service.requests) == 3


@pytest.mark.parametrize("status", [409, 429, 500, 503])
def test_status_with_retry_after_is_retried_after_that_time(call: Caller, status: int) -> None:
    busy = Answer('{"detail": "call again"}', status, {"Retry-After": "7"})
    with serve(lambda number: busy if number < 2 else Answer(MATCH)) as service:
        call(service.url, "enrich_person", codehost="x", idempotency_key="k")
    assert call.waits == [7, 7]
    assert [request.headers["Idempotency-Key"] for request in service.requests] == ["k", "k", "k"]


@pytest.mark.parametrize(
    ("answer", "request_fields", "options"),
    [
        (Answer('{"detail": "call again"}', 429), {}, {}),
        (Answer('{"detail": "call again"}', 504, {"Retry-After": "1"}), {}, {}),
        (Answer('{"detail": "call again"}', 429, {"Retry-After": "soon"}), {}, {}),
        (BUSY, {}, {"max_wait": 6.9}),
        (BUSY, {}, {"retries": 0}),
        (BUSY, {"idempotency_key": ""}, {}),
    ],
    ids=["no time", "504", "malformed", "too long", "no retries", "no key"],
)
def test_other_errors_are_raised_at_once(call: Caller, answer: Answer, request_fields: Any, options: Any) -> None:
    with serve(lambda _: answer) as service, pytest.raises(ApiError, match="^[45][0-9]+: call again$") as raised:
        call(service.url, "enrich_person", codehost="x", client=options, **request_fields)
    assert len(service.requests) == 1
    assert not call.waits
    assert raised.value.status == raised.value.metadata.status == answer.status
    assert "mk_live" not in repr(raised.value)


def test_error_of_a_proxy_has_its_reason(call: Caller) -> None:
    bodies: list[bytes | str] = ["<html>", "[]", '"x"', '{"error": 1}', b"\xff"]
    with serve(lambda number: Answer(bodies[number], 502)) as service:
        for _ in bodies:
            with pytest.raises(ApiError, match="^502: Bad Gateway"):
                call(service.url, "get_usage")


def test_retry_after_is_seconds_or_a_date() -> None:
    assert parse_retry_after("12") == 12
    assert parse_retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0
    later = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=100)
    wait = parse_retry_after(later.strftime("%a, %d %b %Y %H:%M:%S GMT"))
    assert wait is not None
    assert 90 < wait <= 100
    for text in ("", "-1", "1.5", "soon", "9" * 5000, "Wed, 99 Oct 2015 07:28:00 GMT"):
        assert parse_retry_after(text) is None, text[:20]


def test_response_has_metadata(call: Caller) -> None:
    headers = {
        "X-Request-Id": "r1",
        "X-Credits-Charged": "2",
        "X-RateLimit-Limit": "300",
        "X-RateLimit-Remaining": "299",
        "X-RateLimit-Reset": "1795223021",
        "X-Quota-Used": "1",
        "X-Quota-Limit": "10",
        "X-Quota-Remaining": "9",
        "X-Degraded": "web_search, language_model",
        "X-Miss-Reason": "not_found",
        "X-Data-As-Of": "2026-11-29T08:20:00Z; lag=2",
        "Age": "86400",
        "Idempotent-Replayed": "true",
    }
    with serve(lambda _: Answer('{"socials": []}', headers=headers)) as service:
        metadata = call(service.url, "discover_person", codehost="x").metadata
    assert (metadata.status, metadata.request_id, metadata.credits_charged) == (200, "r1", 2)
    assert (metadata.rate_limit.limit, metadata.rate_limit.remaining) == (300, 299)
    assert metadata.rate_limit.reset == datetime.datetime.fromtimestamp(1795223021, datetime.timezone.utc)
    assert (metadata.quota.used, metadata.quota.limit, metadata.quota.remaining) == (1, 10, 9)
    assert metadata.degraded == ("web_search", "language_model")
    assert metadata.miss_reason == "not_found"
    assert metadata.as_of == datetime.datetime(2026, 11, 29, 8, 20, tzinfo=datetime.timezone.utc)
    assert metadata.age == datetime.timedelta(days=1)
    assert metadata.replayed


def test_hostile_headers_do_not_fail_the_call(call: Caller) -> None:
    huge = dict.fromkeys(("Age", "X-RateLimit-Reset", "X-Credits-Charged", "X-Data-As-Of"), "9" * 18)
    hostile: list[dict[str, str]] = [{**huge}, dict.fromkeys(huge, "x"), dict.fromkeys(huge, "-1")]
    with serve(lambda number: Answer("{}", headers=hostile[number])) as service:
        for _ in hostile:
            assert call(service.url, "get_usage").metadata.status == 200


def test_response_that_is_not_json_is_an_error(call: Caller) -> None:
    with (
        serve(lambda _: Answer("<html>")) as service,
        pytest.raises(ValueError, match="decode response to GET /v1/usage"),
    ):
        call(service.url, "get_usage")


def test_dry_run_has_no_value(call: Caller) -> None:
    dry = {"dry_run": True, "max_credits": 1, "credits_remaining": 9}
    with serve(lambda _: Answer(json.dumps(dry))) as service:
        for method, field in (
            ("enrich_person", "codehost"),
            ("create_context", "person"),
            ("get_network_person", "network"),
        ):
            request: dict[str, Any] = {field: "x", "dry_run": True}
            response = call(service.url, method, **request)
            assert response.dry_run == dry
            with pytest.raises(ValueError, match="dry run"):
                _ = response.value
        assert len(call(service.url, "search_pages", query={}, dry_run=True)) == 1
        with pytest.raises(ValueError, match="dry run"):
            call(service.url, "people", query={}, dry_run=True)


def test_people_iterates_over_all_pages(call: Caller) -> None:
    pages = [
        {"results": [{"profile_id": "a"}], "next_cursor": "1"},
        {"results": [], "next_cursor": "2"},  # all of a page may have been erased
        {"results": [{"profile_id": "b"}], "next_cursor": None},
    ]
    with serve(lambda number: Answer(json.dumps(pages[number]))) as service:
        found = call(service.url, "people", query={"match_all": {}}, _source=["profile_id"])
    assert [person["profile_id"] for person in found] == ["a", "b"]
    bodies = [json.loads(request.body) for request in service.requests]
    assert [body.pop("cursor", None) for body in bodies] == [None, "1", "2"]
    assert bodies == [{"query": {"match_all": {}}, "_source": ["profile_id"]}] * 3
    assert len({request.headers["Idempotency-Key"] for request in service.requests}) == 3


def test_pages_that_do_not_advance_end(call: Caller) -> None:
    with serve(lambda _: Answer('{"total": 5, "results": [], "next_cursor": "1"}')) as service:
        assert len(call(service.url, "search_pages", query={}, size=0, cursor="1")) == 1


def test_error_ends_the_iteration(call: Caller) -> None:
    answers = [Answer('{"results": [], "next_cursor": "1"}'), Answer('{"detail": "cursor expired"}', 400)]
    with serve(lambda number: answers[number]) as service, pytest.raises(ApiError, match="cursor expired"):
        call(service.url, "people", query={})


def test_context_call_has_profile_or_request_id(call: Caller) -> None:
    profile = {"full_name": "Ada", "custom": {}, "confidence": {}}
    answers = [
        Answer('{"request_id": "r2", "status": "processing"}', 202, {"X-Request-Id": "r1"}),
        Answer(json.dumps(profile), headers={"X-Request-Id": "r3"}),
        Answer('{"request_id": "r/2", "status": "processing"}', 202),
        Answer(json.dumps(profile), headers={"X-Request-Id": "r4"}),
        Answer(json.dumps(profile)),
    ]
    with serve(lambda number: answers[number]) as service:
        accepted = call(service.url, "create_context", person="x", webhook_url="https://x.example").value
        assert (accepted.profile, accepted.request_id) == (None, "r2")
        created = call(service.url, "create_context", person={"name": "Ada"}).value
        assert (created.profile, created.request_id) == (profile, "r3")
        waiting = call(service.url, "get_context", "r/2").value
        assert (waiting.profile, waiting.request_id) == (None, "r/2")
        ready = call(service.url, "get_context", "r3").value
        assert (ready.profile, ready.request_id) == (profile, "r3")
        assert call(service.url, "get_usage_event", "../r?5").value == profile
    assert [request.path for request in service.requests[2::2]] == ["/v1/context/r%2F2", "/v1/usage/..%2Fr%3F5"]


@pytest.mark.parametrize("url", ["", "127.0.0.1:8080", "ftp://x", "http://", "http://x:y", "http://[::1"])
def test_invalid_base_url_is_rejected(url: str) -> None:
    with pytest.raises(ValueError, match="invalid base URL"):
        Client(url, "k")


def test_own_http_client_stays_open() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"path": request.url.path})

    with httpx.Client(transport=httpx.MockTransport(answer)) as http:
        with Client("http://x", "k", http=http) as api:
            assert api.get_openapi().value == {"path": "/v1/openapi.json"}
        assert not http.is_closed
    owned = Client("http://x", "k")
    owned.close()
    with pytest.raises(RuntimeError, match="closed"):
        owned.get_usage()


def test_retry_waits() -> None:
    answers = [Answer('{"detail": "x"}', 429, {"Retry-After": "1"}), Answer("{}")]
    with serve(lambda number: answers[number]) as service, Client(service.url, "k") as api:
        began = time.monotonic()
        api.get_usage()
        assert time.monotonic() - began >= 1


def test_bulk_rows_are_sent_as_ndjson_or_csv(call: Caller) -> None:
    accepted = Answer('{"job_id": "j", "rows": 2}', 202)
    with serve(lambda _: accepted) as service:
        rows = [{"reference": "a", "email": "ü@example.org"}, {"codehost": "octavia"}]
        job = call(service.url, "submit_bulk", "person_enrich", rows, max_credits=2)
        assert job.value == {"job_id": "j", "rows": 2}
        call(service.url, "submit_bulk", "discover", b"codehost\noctavia\n", csv=True, fields=["network.username", "x"])
    objects, table = service.requests
    assert objects.path == "/v1/bulk?operation=person_enrich&max_credits=2"
    assert objects.headers["Content-Type"] == "application/x-ndjson"
    assert [json.loads(line) for line in objects.body.splitlines()] == rows
    assert objects.headers["Idempotency-Key"]
    assert table.path == "/v1/bulk?operation=discover&fields=network.username%2Cx"
    assert table.headers["Content-Type"] == "text/csv"
    assert table.body == "codehost\noctavia\n"


def test_bulk_job_is_awaited_and_its_results_are_read(call: Caller) -> None:
    states = ["queued", "running", "done"]
    with serve(lambda i: Answer(json.dumps({"job_id": "j/1", "status": states[i]}))) as service:
        assert call(service.url, "wait_bulk", "j/1").value["status"] == "done"
    assert [request.path for request in service.requests] == ["/v1/bulk/j%2F1"] * 3
    assert call.waits == [0.25, 0.5]

    rows = '{"reference":"a","person":{"name":"a\u2028b"}}\n{"reference":"2","detail":"x"}\n'
    with serve(lambda _: Answer(rows, 200, {"Content-Type": "application/x-ndjson"})) as service:
        assert call(service.url, "get_bulk_results", "j").value == rows
        assert [row["reference"] for row in call(service.url, "bulk_results", "j")] == ["a", "2"]
    table = Answer("reference\na\n", 200, {"Content-Type": "text/csv; charset=utf-8"})
    with serve(lambda _: table) as service, pytest.raises(ValueError, match="CSV"):
        call(service.url, "bulk_results", "j")
    with serve(lambda _: Answer("", 202)) as service, pytest.raises(ValueError, match="wait_bulk"):
        call(service.url, "get_bulk_results", "j")
