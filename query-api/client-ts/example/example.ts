/**
 * A walk through the API: who somebody is, everybody who fits a query, and a
 * profile that comes by webhook.
 *
 *   MUSTER_URL=http://127.0.0.1:8080 KEY=mk_live_... SECRET=whsec_... node dist/example/example.js octavia
 *
 * The webhook comes to this machine by plain http, which the service must allow:
 * muster up --webhook-allow 127.0.0.0/8. Without SECRET that step is left out.
 */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { env, argv } from "node:process";
import { text } from "node:stream/consumers";
import { muster, people, verifyWebhook } from "../src/index.js";

const client = muster({ baseUrl: env["MUSTER_URL"] ?? "http://127.0.0.1:8080", apiKey: env["KEY"] ?? "" });
const username = argv[2] ?? "octavia";

const enriched = await client.POST("/v1/person/enrich", { body: { codehost: username, websets: ["codehost", "network"] } });
if (enriched.error) throw new Error(enriched.error.detail);
console.log("enrich:", enriched.data.websets_matched?.join(" "), "-", enriched.data.person?.codehost?.codehost_username);

const one = await client.GET("/v1/webset/codehost/person", { params: { query: { codehost: username, addons: ["network"], must_have: ["repos", "network"] } } });
if (one.error) throw new Error(one.error.detail);
console.log("webset:", one.data.codehost_username, one.response.headers.get("X-Credits-Charged"), "credit");

let found = 0;
for await (const person of people(client, { query: { match: { "profile.headline": "engineer" } }, size: 5, _source: ["profile.full_name"] })) {
  found++;
  if (person.profile_id === undefined) throw new Error("a result without an id");
}
const all = await client.POST("/v1/person/search", { body: { query: { match: { "profile.headline": "engineer" } }, size: 0 } });
console.log("search:", found, "of", all.data?.total);

const wrong = await client.POST("/v1/person/discover", { body: { codehost: "https://foreign.example/x" } });
console.log("refused:", wrong.response.status, wrong.error?.detail);

const secret = env["SECRET"];
if (secret) {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}/muster`;
  const delivery = once(server, "request");
  const accepted = await client.POST("/v1/context", {
    body: { person: `code at https://codehost.example/${username}`, webhook_url: address, response_timeout_sec: 0 },
  });
  console.log("context:", accepted.response.status);
  const [request, response] = await delivery;
  const profile = verifyWebhook(secret, request.headers, await text(request));
  response.writeHead(204).end();
  console.log("webhook:", "detail" in profile ? profile.detail : Object.keys(profile.confidence).length > 0);
  server.close();
}
