"""
A walk through the API: a person, the results of a search, an error, and a profile that comes by webhook.

    MUSTER_URL=http://127.0.0.1:8080 KEY=mk_live_... SECRET=whsec_... python example/example.py octavia

The webhook uses plain HTTP on this machine, which the service must allow: muster up --webhook-allow 127.0.0.0/8.
Without SECRET that step is skipped.
"""

import asyncio
import os
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

from muster_client import ApiError, AsyncClient, Client, verify_webhook

QUERY = {"match": {"profile.headline": "engineer"}}


def main(url: str, key: str, secret: str, username: str) -> None:
    with Client(url, key) as api:
        enriched = api.enrich_person(codehost=username, websets=["codehost", "network"])
        print("enrich:", *enriched.value.get("websets_matched", []))

        found = sum(1 for person in api.people(query=QUERY, size=5) if person.get("profile_id"))
        total = api.search_people(query=QUERY, size=0).value["total"]
        print("search:", found, "of", total)

        try:
            api.discover_person(codehost="https://foreign.example/x")
        except ApiError as error:
            print("refused:", error)

        if secret:
            receive(api, secret, username)

    asyncio.run(concurrently(url, key, [username, "no-such-person"]))


def receive(api: Client, secret: str, username: str) -> None:
    class Receiver(BaseHTTPRequestHandler):
        timeout = 30

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            delivery = verify_webhook(dict(self.headers), body, secret)
            self.send_response(204)
            self.end_headers()
            print("webhook:", delivery.profile is not None and delivery.request_id == accepted.value.request_id)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Logs nothing."""

    with HTTPServer(("127.0.0.1", 0), Receiver) as server:
        accepted = api.create_context(
            person=f"code at https://codehost.example/{username}",
            webhook_url=f"http://127.0.0.1:{server.server_port}/muster",
            response_timeout_sec=0,
        )
        print("context:", accepted.metadata.status)
        server.handle_request()


async def concurrently(url: str, key: str, usernames: list[str]) -> None:
    async with AsyncClient(url, key) as api:
        people = await asyncio.gather(*(api.get_codehost_person(username) for username in usernames))
        print("async:", *(bool(person.value) for person in people))


if __name__ == "__main__":
    main(
        os.environ.get("MUSTER_URL", "http://127.0.0.1:8080"),
        os.environ.get("KEY", ""),
        os.environ.get("SECRET", ""),
        sys.argv[1] if len(sys.argv) > 1 else "octavia",
    )
