"""
Calls every operation of a running service: MUSTER_URL and KEY.

make test-clients runs it on `muster up`; pytest does not collect it by its name.
"""

from __future__ import annotations

import datetime
import os
import time
from typing import Any

import pytest
from conftest import Caller

from muster_client import ApiError, Metadata, to_dataframe

URL = os.environ["MUSTER_URL"]
USERNAME = "octavia"  # an example that is in the sample data


@pytest.fixture(params=["sync", "async"])
def api(request: pytest.FixtureRequest) -> Any:
    call = Caller(request.param, [], os.environ["KEY"])

    def method(name: str, /, *args: Any, **fields: Any) -> Any:
        return call(URL, name, *args, **fields)

    return method


def assert_paid(metadata: Metadata) -> None:
    assert metadata.status == 200
    assert metadata.request_id
    assert metadata.credits_charged > 0
    assert metadata.rate_limit.limit > 0
    assert metadata.rate_limit.reset is not None
    wait = metadata.rate_limit.reset - datetime.datetime.now(datetime.timezone.utc)
    assert abs(wait) < datetime.timedelta(hours=1)


def ledger_entry(api: Any, request_id: str) -> Any:
    """Returns the entry of a call, which the projector writes a few seconds after it."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return api("get_usage_event", request_id).value
        except ApiError as error:
            if error.status != 404 or time.monotonic() > deadline:
                raise
        time.sleep(0.2)


def test_people_and_companies_are_enriched(api: Any) -> None:
    request: dict[str, Any] = {"codehost": USERNAME, "websets": ["codehost", "network"]}
    key = os.urandom(8).hex()
    first = api("enrich_person", idempotency_key=key, **request)
    assert_paid(first.metadata)
    assert first.value["websets_matched"] == ["codehost", "network"]
    again = api("enrich_person", idempotency_key=key, **request)
    assert again.metadata.replayed
    assert again.value == first.value

    results = api("enrich_person", items=[{"reference": "a", "codehost": USERNAME}, {"reference": "b"}]).value[
        "results"
    ]
    assert results[0]["person"]["codehost"]["user_id"] == first.value["person"]["codehost"]["user_id"]
    assert results[1]["reference"] == "b"
    assert results[1]["detail"]

    page = api("search_people", query={"exists": {"field": "experience.company_url"}}, size=2, _source=["experience"])
    assert_paid(page.metadata)
    jobs = [job for person in page.value["results"] for job in person["experience"] if "company_url" in job]
    company = api("enrich_company", network_url=jobs[0]["company_url"])
    assert_paid(company.metadata)
    assert company.value["company"]["profile"]["name"]


def test_bulk_job_answers_its_rows(api: Any) -> None:
    rows = [{"reference": "a", "codehost": USERNAME}, {"reference": "b"}]
    job = api("wait_bulk", api("submit_bulk", "person_enrich", rows).value["job_id"])
    assert job.value["status"] == "done"
    assert job.value["done"] == 2
    results = api("bulk_results", job.value["job_id"])
    assert results[0]["websets_matched"] == ["codehost"]
    assert results[1]["reference"] == "b"
    assert results[1]["detail"]
    assert api("get_bulk", job.value["job_id"]).value == job.value
    assert '"reference":"a"' in api("get_bulk_results", job.value["job_id"]).value


def test_search_is_paged_explained_and_made_a_table(api: Any) -> None:
    query = {"match": {"profile.headline": "engineer"}}
    total = api("search_people", query=query, size=0).value["total"]
    people = api("people", query=query, size=7, sort=[{"profile.connections": "desc"}])
    assert len({person["profile_id"] for person in people}) == len(people) == total > 7
    pages = api("search_pages", query=query, size=7)
    assert [page.metadata.credits_charged for page in pages] == [len(page.value["results"]) for page in pages]
    quota = pages[-1].metadata.quota
    assert quota.limit == quota.used + quota.remaining
    assert api("search_people", query=query, size=7, dry_run=True).dry_run["max_credits"] == 7
    explained = api("explain_search", query=query, dry_run=True)
    assert explained.value["statements"]

    firms = api("companies", query={"match_all": {}}, size=40, sort=[{"profile.employees": "desc"}])
    counted = api("search_companies", query={"match_all": {}}, size=0).value["total"]
    assert len({firm["company_id"] for firm in firms}) == len(firms) == counted > 1
    assert api("explain_company_search", query={"match_all": {}}).value["max_credits"] == 10
    assert "values" in api("suggest_values", "profile.location.country.keyword", "p", size=5).value

    table = to_dataframe(people)
    assert len(table) == total
    assert table["profile.full_name"].notna().any()
    jobs = to_dataframe(people, "experience")
    assert set(jobs["profile_id"]) <= set(table["profile_id"])
    assert jobs["title"].notna().any()


def test_profiles_are_discovered_and_created(api: Any) -> None:
    found = api("discover_person", codehost=USERNAME)
    assert found.value["socials"][0]["platform"] == "codehost"
    name = api("enrich_person", codehost=USERNAME).value["person"]["codehost"]["full_name"]
    identified = api("identify_person", name=name, email=USERNAME + "@users.noreply.codehost.example")
    assert identified.value["matches"][0]["codehost_username"] == USERNAME
    feedback = api("submit_feedback", request_id=identified.metadata.request_id, verdict="right")
    assert feedback.value["status"] == "pending"
    created = api(
        "create_context",
        person={"code": "https://codehost.example/" + USERNAME},
        schema={"languages": {"type": "array", "items": {"type": "string"}}},
        confidence=0.5,
    )
    assert created.value.profile["confidence"]
    assert "languages" in created.value.profile["custom"]
    assert api("get_context", created.value.request_id).value == created.value


def test_records_are_read_by_identifier(api: Any) -> None:
    account = api("get_codehost_person", USERNAME, addons=["network"], must_have=["codehost_username"])
    assert_paid(account.metadata)
    network = account.value["network"]["username"]
    accounts = api("post_codehost_person", codehost=[USERNAME, "no-such-person"], addons=["network"])
    assert accounts.value == [account.value, {}]

    person = api(
        "get_network_person", network, addons=["codehost", "personal_email"], must_have=["full_name", "skills"]
    )
    assert_paid(person.metadata)
    assert person.value["codehost"]["username"] == USERNAME
    people = api("post_network_person", network=[network, "no-such-person"], addons=["codehost", "personal_email"])
    assert people.value == [person.value, {}]
    assert api("get_network_person", "no-such-person").metadata.miss_reason == "not_found"
    assert api("get_codehost_person", USERNAME, dry_run=True).dry_run["max_credits"] > 0
    assert api("get_codehost_person", USERNAME, max_credits=5, fields=["codehost_username"]).value.keys() == {
        "codehost_username"
    }


def test_settings_are_changed(api: Any) -> None:
    url = "https://hooks.example.org/muster"
    settings = api("set_webhook", url).value
    assert settings["url"] == url
    rotated = api("rotate_webhook_secret", overlap_sec=0).value
    assert rotated["secrets"][0]["secret"].startswith("whsec_")
    key = os.urandom(8).hex()
    delivery = api("test_webhook", idempotency_key=key).value["delivery_id"]
    assert api("test_webhook", idempotency_key=key).value["delivery_id"] == delivery
    deadline = time.monotonic() + 60
    while delivery not in [d["delivery_id"] for d in api("list_webhook_deliveries", limit=100).value["deliveries"]]:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert api("get_webhook_delivery", delivery).value["log"]
    assert api("resend_webhook_delivery", delivery).value["delivery_id"] == delivery
    assert api("get_webhook").value["url"] == url
    assert api("delete_webhook").value["url"] is None
    with pytest.raises(ApiError, match="404: .*no valid key"):
        api("rotate_key", "absent", overlap_sec=3600)


def test_service_describes_usage_api_and_errors(api: Any) -> None:
    usage = api("get_usage").value
    assert usage["organization_id"]
    assert {"used", "limit", "remaining"} == usage["credits"].keys()
    paid = api("get_codehost_person", USERNAME)
    cost = ledger_entry(api, paid.metadata.request_id)
    assert (cost["outcome"], cost["credits"]) == ("charged", paid.metadata.credits_charged)
    assert "/v1/person/enrich" in api("get_openapi").value["paths"]
    with pytest.raises(ApiError, match="400: .*did you mean") as error:
        api("search_people", query={"mtch_all": {}})
    assert error.value.status == 400
    assert error.value.metadata.request_id
