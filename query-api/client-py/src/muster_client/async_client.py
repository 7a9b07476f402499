"""The asynchronous client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, Optional, Union

import httpx
from typing_extensions import Self, Unpack

from . import _http
from ._http import ApiError, Call, ContextResult, Metadata, Response
from .models import (
    BulkAccepted,
    BulkJob,
    BulkOperation,
    CodehostAddon,
    CodehostMustHave,
    CodehostPerson,
    CodehostPersonRequest,
    Company,
    CompanyEnrichRequest,
    CompanyEnrichResponse,
    CompanySearchResponse,
    ContextRequest,
    EnrichedNetwork,
    FeedbackRequest,
    FeedbackResponse,
    NetworkAddon,
    NetworkMustHave,
    NetworkPerson,
    NetworkPersonRequest,
    PersonDiscoverRequest,
    PersonDiscoverResponse,
    PersonEnrichRequest,
    PersonEnrichResponse,
    PersonIdentifyRequest,
    PersonIdentifyResponse,
    RotatedKey,
    RotateKeyRequest,
    RotateWebhookSecretRequest,
    SearchExplanation,
    SearchRequest,
    SearchResponse,
    Suggestions,
    Usage,
    UsageEvent,
    Webhook,
    WebhookDeliveries,
    WebhookDelivery,
    WebhookQueued,
    WebhookStatus,
)


class AsyncClient:
    """
    Calls the API of one service with one API key.

    There is one method per operation of the API description, with the fields of its request as arguments. A call
    raises ApiError if the status is not 2xx.

    A call is retried after a broken connection or a truncated response, and after a status of 409, 429, 500 or 503
    with Retry-After once that time has passed. Only calls that are safe to repeat are: every GET, and every POST with
    an Idempotency-Key. A POST has a random one unless idempotency_key is set: for 24 hours, a call with the same key,
    operation and body returns the stored response without another charge, so save the key before the call to repeat
    it after a crash. If it is empty, the header is not sent and the call is not retried.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        retries: int = 4,
        max_wait: float = 60,
        user_agent: str = "muster-python/" + _http.__version__,
        http: Optional[httpx.AsyncClient] = None,
    ) -> None:
        """
        Creates a client of the service at a base URL, such as http://127.0.0.1:8080.

        retries is the maximum number of retries of a call. max_wait is the longest wait before a retry, in seconds; an
        error that requires a longer one is raised immediately. http sends the requests, with its timeouts, proxies
        and certificates; aclose closes only a default one.
        """
        self._base_url = _http.parse_base_url(base_url)
        self._headers = {"Authorization": "Bearer " + api_key, "User-Agent": user_agent}
        self._retries = retries
        self._max_wait = max_wait
        self._owns_http = http is None
        self._http = http or httpx.AsyncClient(timeout=_http.DEFAULT_TIMEOUT)

    async def __aenter__(self) -> Self:
        """Returns the client, which is closed at the end of the block."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Closes the client."""
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the connections."""
        if self._owns_http:
            await self._http.aclose()

    async def enrich_person(
        self, *, idempotency_key: Optional[str] = None, **person: Unpack[PersonEnrichRequest]
    ) -> Response[PersonEnrichResponse]:
        """
        Finds a person by username or email (POST /v1/person/enrich).

        If there is no match, websets_matched is empty and nothing is charged. With items it finds up to 100
        people, and results has one result for each, in order.
        """
        return await self._post("/v1/person/enrich", person, idempotency_key)

    async def enrich_company(
        self, *, idempotency_key: Optional[str] = None, **company: Unpack[CompanyEnrichRequest]
    ) -> Response[CompanyEnrichResponse]:
        """Finds a company by slug, ID, URL, domain or name (POST /v1/company/enrich), or up to 100 with items."""
        return await self._post("/v1/company/enrich", company, idempotency_key)

    async def search_people(
        self, *, idempotency_key: Optional[str] = None, **search: Unpack[SearchRequest]
    ) -> Response[SearchResponse]:
        """Returns one page of a search (POST /v1/person/search). people iterates over all pages."""
        return await self._post("/v1/person/search", search, idempotency_key)

    async def search_pages(self, **search: Unpack[SearchRequest]) -> AsyncIterator[Response[SearchResponse]]:
        """
        Iterates over the pages of a search, starting at cursor.

        size is the page size, and a result is charged when its page is fetched.
        """
        while True:
            page = await self.search_people(**search)
            yield page
            cursor = None if page.dry_run else page.value.get("next_cursor")
            if not cursor or cursor == search.get("cursor"):  # a page of size 0 does not advance
                return
            search["cursor"] = cursor

    async def people(self, **search: Unpack[SearchRequest]) -> AsyncIterator[EnrichedNetwork]:
        """Iterates over the results of a search, page by page, like search_pages."""
        async for page in self.search_pages(**search):
            for person in page.value["results"]:
                yield person

    async def explain_search(
        self, *, idempotency_key: Optional[str] = None, **search: Unpack[SearchRequest]
    ) -> Response[SearchExplanation]:
        """Returns how a search is executed, or why it is rejected (POST /v1/person/search/explain)."""
        return await self._call(_http.post("/v1/person/search/explain", search, idempotency_key), False)

    async def search_companies(
        self, *, idempotency_key: Optional[str] = None, **search: Unpack[SearchRequest]
    ) -> Response[CompanySearchResponse]:
        """Returns one page of a search for companies (POST /v1/company/search). companies iterates over all pages."""
        return await self._post("/v1/company/search", search, idempotency_key)

    async def companies(self, **search: Unpack[SearchRequest]) -> AsyncIterator[Company]:
        """
        Iterates over the results of a search for companies, page by page.

        size is the page size, and a result is charged when its page is fetched.
        """
        while True:
            page = await self.search_companies(**search)
            for company in page.value["results"]:
                yield company
            cursor = page.value.get("next_cursor")
            if not cursor or cursor == search.get("cursor"):  # a page of size 0 does not advance
                return
            search["cursor"] = cursor

    async def explain_company_search(
        self, *, idempotency_key: Optional[str] = None, **search: Unpack[SearchRequest]
    ) -> Response[SearchExplanation]:
        """Returns how a search for companies is executed, or why it is rejected (POST /v1/company/search/explain)."""
        return await self._call(_http.post("/v1/company/search/explain", search, idempotency_key), False)

    async def discover_person(
        self, *, idempotency_key: Optional[str] = None, **person: Unpack[PersonDiscoverRequest]
    ) -> Response[PersonDiscoverResponse]:
        """Finds a person's profiles on other platforms (POST /v1/person/discover)."""
        return await self._post("/v1/person/discover", person, idempotency_key)

    async def identify_person(
        self, *, idempotency_key: Optional[str] = None, **person: Unpack[PersonIdentifyRequest]
    ) -> Response[PersonIdentifyResponse]:
        """Finds the people that a description may be of, most likely first (POST /v1/person/identify)."""
        return await self._post("/v1/person/identify", person, idempotency_key)

    async def submit_feedback(
        self, *, idempotency_key: Optional[str] = None, **feedback: Unpack[FeedbackRequest]
    ) -> Response[FeedbackResponse]:
        """Says whether a match is right (POST /v1/feedback). It is free."""
        return await self._call(_http.post("/v1/feedback", feedback, idempotency_key), False)

    async def create_context(
        self, *, idempotency_key: Optional[str] = None, **task: Unpack[ContextRequest]
    ) -> Response[ContextResult]:
        """
        Creates a structured profile from unstructured data (POST /v1/context).

        If the profile is not ready in time, the result has no profile if there is a webhook_url, and the call raises
        an ApiError of status 504 if there is none; the task continues.
        """
        return _http.new_context_response(await self._post("/v1/context", task, idempotency_key), "")

    async def get_context(self, request_id: str) -> Response[ContextResult]:
        """Returns the result of a context call of the last 24 hours (GET /v1/context/{request_id})."""
        response = await self._call(_http.get_by_id("/v1/context/", request_id), False)
        return _http.new_context_response(response, request_id)

    async def get_network_person(
        self,
        network: str,
        *,
        addons: Sequence[NetworkAddon] = (),
        must_have: Sequence[NetworkMustHave] = (),
        fields: Sequence[str] = (),
        max_credits: Optional[int] = None,
        dry_run: bool = False,
    ) -> Response[NetworkPerson]:
        """
        Returns the record of one professional-network person (GET /v1/webset/network/person).

        If there is no match it is empty.
        """
        params = {
            "network": network,
            "addons": addons,
            "must_have": must_have,
            "fields": fields,
            "max_credits": max_credits,
        }
        return await self._get("/v1/webset/network/person", params, dry_run)

    async def post_network_person(
        self, *, idempotency_key: Optional[str] = None, **people: Unpack[NetworkPersonRequest]
    ) -> Response[list[NetworkPerson]]:
        """
        Returns the records of 1 to 100 professional-network people (POST /v1/webset/network/person).

        They are in the order of the identifiers, with empty ones for those without a match.
        """
        return await self._post("/v1/webset/network/person", people, idempotency_key)

    async def get_codehost_person(
        self,
        codehost: str,
        *,
        addons: Sequence[CodehostAddon] = (),
        must_have: Sequence[CodehostMustHave] = (),
        fields: Sequence[str] = (),
        max_credits: Optional[int] = None,
        dry_run: bool = False,
    ) -> Response[CodehostPerson]:
        """
        Returns the record of one code-hosting person (GET /v1/webset/codehost/person).

        If there is no match it is empty.
        """
        params = {
            "codehost": codehost,
            "addons": addons,
            "must_have": must_have,
            "fields": fields,
            "max_credits": max_credits,
        }
        return await self._get("/v1/webset/codehost/person", params, dry_run)

    async def post_codehost_person(
        self, *, idempotency_key: Optional[str] = None, **people: Unpack[CodehostPersonRequest]
    ) -> Response[list[CodehostPerson]]:
        """
        Returns the records of 1 to 100 code-hosting people (POST /v1/webset/codehost/person).

        They are in the order of the identifiers, with empty ones for those without a match.
        """
        return await self._post("/v1/webset/codehost/person", people, idempotency_key)

    async def submit_bulk(
        self,
        operation: BulkOperation,
        rows: Union[bytes, Iterable[Mapping[str, object]]],
        *,
        csv: bool = False,
        fields: Sequence[str] = (),
        webhook_url: Optional[str] = None,
        max_credits: Optional[int] = None,
        dry_run: bool = False,
        idempotency_key: Optional[str] = None,
    ) -> Response[BulkAccepted]:
        """
        Submits a job of up to 100,000 rows and 64 MiB (POST /v1/bulk).

        rows are objects, bytes of NDJSON, or bytes of CSV with a header if csv is set. With fields the results are
        CSV with these columns. wait_bulk waits for the job.
        """
        params = {
            "operation": operation,
            "fields": fields,
            "webhook_url": webhook_url,
            "max_credits": max_credits,
            "dry_run": dry_run,
        }
        return await self._call(_http.post_rows("/v1/bulk", params, rows, csv, idempotency_key), dry_run)

    async def get_bulk(self, job_id: str) -> Response[BulkJob]:
        """Returns the status of a job (GET /v1/bulk/{job_id})."""
        return await self._call(_http.get_by_id("/v1/bulk/", job_id), False)

    async def wait_bulk(self, job_id: str) -> Response[BulkJob]:
        """Waits until a job is done or has failed, and returns it."""
        pause = _http.FIRST_PAUSE
        while True:
            job = await self.get_bulk(job_id)
            if job.value["status"] in ("done", "failed"):
                return job
            await asyncio.sleep(pause)
            pause = min(_http.MAX_BULK_PAUSE, 2 * pause)

    async def get_bulk_results(self, job_id: str) -> Response[str]:
        """Returns the results of a finished job, NDJSON, or CSV with fields (GET /v1/bulk/{job_id}/results)."""
        return _http.new_results(*await self._send(_http.get_by_id("/v1/bulk/", job_id, "/results")))

    async def bulk_results(self, job_id: str) -> AsyncIterator[dict[str, Any]]:
        """Iterates over the results of a finished job without fields, in the order of its rows."""
        for row in _http.new_rows(await self.get_bulk_results(job_id)):
            yield row

    async def suggest_values(
        self, field: str, prefix: str = "", *, size: Optional[int] = None
    ) -> Response[Suggestions]:
        """Returns the most frequent values of a field of search that begin with a prefix (GET /v1/suggest)."""
        return await self._get("/v1/suggest", {"field": field, "prefix": prefix, "size": size}, False)

    async def get_usage(self) -> Response[Usage]:
        """Returns the requests and credits used in this month (GET /v1/usage)."""
        return await self._get("/v1/usage", {}, False)

    async def get_usage_event(self, request_id: str) -> Response[UsageEvent]:
        """
        Returns the cost of a call, by the request_id of its response (GET /v1/usage/{request_id}).

        It is known a few seconds after the call.
        """
        return await self._call(_http.get_by_id("/v1/usage/", request_id), False)

    async def get_webhook(self) -> Response[Webhook]:
        """Returns the webhook settings of the organization, without the text of secrets (GET /v1/webhook)."""
        return await self._get("/v1/webhook", {}, False)

    async def set_webhook(self, url: str) -> Response[Webhook]:
        """
        Sets the endpoint for events (PUT /v1/webhook).

        The response has the text of the first webhook secret, if this call created it.
        """
        return await self._call(Call("PUT", "/v1/webhook", {}, _http.encode({"url": url})), False)

    async def delete_webhook(self) -> Response[Webhook]:
        """Removes the endpoint for events (DELETE /v1/webhook)."""
        return await self._call(Call("DELETE", "/v1/webhook"), False)

    async def rotate_webhook_secret(
        self, *, idempotency_key: Optional[str] = None, **rotation: Unpack[RotateWebhookSecretRequest]
    ) -> Response[Webhook]:
        """Creates a webhook secret, whose text only this response has (POST /v1/webhook/secret/rotate)."""
        return await self._post("/v1/webhook/secret/rotate", rotation, idempotency_key)

    async def test_webhook(self, *, idempotency_key: Optional[str] = None) -> Response[WebhookQueued]:
        """Sends a test event to the endpoint for events (POST /v1/webhook/test)."""
        return await self._post("/v1/webhook/test", {}, idempotency_key)

    async def list_webhook_deliveries(
        self, *, status: Optional[WebhookStatus] = None, limit: int = 20, cursor: Optional[str] = None
    ) -> Response[WebhookDeliveries]:
        """Returns a page of the organization's deliveries, newest first (GET /v1/webhook/deliveries)."""
        return await self._get("/v1/webhook/deliveries", {"status": status, "limit": limit, "cursor": cursor}, False)

    async def get_webhook_delivery(self, delivery_id: str) -> Response[WebhookDelivery]:
        """Returns a delivery with its attempts (GET /v1/webhook/deliveries/{delivery_id})."""
        return await self._call(_http.get_by_id("/v1/webhook/deliveries/", delivery_id), False)

    async def resend_webhook_delivery(
        self, delivery_id: str, *, idempotency_key: Optional[str] = None
    ) -> Response[WebhookQueued]:
        """Sends a delivery of the last seven days again (POST /v1/webhook/deliveries/{delivery_id}/resend)."""
        return await self._post(_http.by_id("/v1/webhook/deliveries/", delivery_id, "/resend"), {}, idempotency_key)

    async def rotate_key(
        self, key_id: str, *, idempotency_key: Optional[str] = None, **rotation: Unpack[RotateKeyRequest]
    ) -> Response[RotatedKey]:
        """
        Creates a key that replaces one, by its public part (POST /v1/keys/{key_id}/rotate).

        Only this response has the new key.
        """
        return await self._post(_http.by_id("/v1/keys/", key_id, "/rotate"), rotation, idempotency_key)

    async def get_openapi(self) -> Response[dict[str, Any]]:
        """Returns the OpenAPI description of the API (GET /v1/openapi.json)."""
        return await self._get("/v1/openapi.json", {}, False)

    async def _get(self, path: str, params: Mapping[str, object], dry_run: bool) -> Response[Any]:
        """Sends a GET request."""
        return await self._call(_http.get(path, {**params, "dry_run": dry_run}), dry_run)

    async def _post(self, path: str, body: Mapping[str, object], idempotency_key: Optional[str]) -> Response[Any]:
        """Sends a POST request."""
        return await self._call(_http.post(path, body, idempotency_key), bool(body.get("dry_run")))

    async def _call(self, call: Call, dry_run: bool) -> Response[Any]:
        """Sends a call until there is a final response, and decodes it."""
        metadata, body = await self._send(call)
        return _http.new_response(call, metadata, body, dry_run)

    async def _send(self, call: Call) -> tuple[Metadata, bytes]:
        """Sends a call, and repeats it if that is safe and can help."""
        attempt = 0
        while True:
            try:
                response = await self._http.request(
                    call.method,
                    self._base_url + call.path,
                    params=call.params,
                    content=call.content,
                    headers={**self._headers, **call.headers},
                )
                return _http.check(response)
            except (ApiError, httpx.TransportError) as error:
                wait = _http.wait_before_retry(call, error, attempt, self._retries, self._max_wait)
                if wait is None:
                    raise
            await asyncio.sleep(wait)
            attempt += 1
