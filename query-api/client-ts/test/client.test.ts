import assert from "node:assert/strict";
import { test } from "node:test";
import { bulkResults, muster, people, submitBulk, waitBulk, type Person } from "../src/index.js";

/** A client whose answers are made here, and what it sent. */
function answered(answer: (request: Request) => Promise<unknown> | unknown) {
  const sent: Request[] = [];
  const client = muster({
    baseUrl: "http://127.0.0.1:1",
    apiKey: "mk_live_x",
    fetch: async (request) => {
      sent.push(request.clone());
      assert.ok(sent.length < 10, "it goes on and on");
      return Response.json(await answer(request));
    },
  });
  return { client, sent };
}

/** Runs with another `crypto`, as old runtimes and plain http pages have it. */
async function withCrypto(value: unknown, run: () => Promise<void>) {
  const before = Object.getOwnPropertyDescriptor(globalThis, "crypto");
  Object.defineProperty(globalThis, "crypto", { value, configurable: true });
  try {
    await run();
  } finally {
    if (before) Object.defineProperty(globalThis, "crypto", before);
    else Reflect.deleteProperty(globalThis, "crypto");
  }
}

for (const [name, crypto] of [["as it is", globalThis.crypto], ["missing", undefined], ["without randomUUID", {}]] as const) {
  test(`a POST has a key of its own, with crypto ${name}`, () =>
    withCrypto(crypto, async () => {
      const { client, sent } = answered(() => ({ websets_matched: [], person: {} }));
      for (let i = 0; i < 3; i++) await client.POST("/v1/person/enrich", { body: { codehost: "octavia" } });
      const keys = new Set(sent.map((request) => request.headers.get("Idempotency-Key")));
      assert.equal(keys.size, 3);
      for (const key of keys) assert.match(key ?? "", /^[0-9a-f-]{32,36}$/);
    }));
}

test("a truncated response is retried with the same key", async () => {
  const sent: Request[] = [];
  const client = muster({
    baseUrl: "http://127.0.0.1:1",
    apiKey: "mk_live_x",
    fetch: async (request) => {
      sent.push(request.clone());
      if (sent.length > 1) return Response.json({ websets_matched: ["codehost"], person: {} });
      const truncated = new ReadableStream({
        start(controller) {
          controller.enqueue(new TextEncoder().encode('{"websets_'));
          controller.error(new TypeError("terminated"));
        },
      });
      return new Response(truncated, { headers: { "Content-Type": "application/json" } });
    },
  });
  const { data } = await client.POST("/v1/person/enrich", { body: { codehost: "octavia" } });
  assert.deepEqual(data?.websets_matched, ["codehost"]);
  assert.equal(sent.length, 2);
  assert.equal(sent[0]?.headers.get("Idempotency-Key"), sent[1]?.headers.get("Idempotency-Key"));
});

test("a walk goes on to its end", async () => {
  const pages = [
    { results: [{ profile_id: "a" }], next_cursor: "1" },
    { results: [], next_cursor: "2" }, // all of a page may have been erased
    { results: [{ profile_id: "b" }], next_cursor: null },
  ];
  const { client, sent } = answered(() => pages[sent.length - 1]);
  const found: Person[] = [];
  for await (const person of people(client, { query: { match_all: {} } })) found.push(person);
  assert.deepEqual(found.map((person) => person.profile_id), ["a", "b"]);
});

test("a walk that gets nowhere ends", async () => {
  const { client, sent } = answered(() => ({ total: 5, results: [], next_cursor: "1" }));
  for await (const _ of people(client, { query: { match_all: {} }, size: 0, cursor: "1" })) assert.fail();
  assert.equal(sent.length, 1);
});

test("a job is submitted as lines, waited for and read line by line", async () => {
  const bodies: string[] = [];
  let asked = 0;
  const job = { job_id: "j", operation: "person_enrich", rows: 2, credits: 1 };
  const client = muster({
    baseUrl: "http://127.0.0.1:1",
    apiKey: "mk_live_x",
    fetch: async (request) => {
      const { pathname, search } = new URL(request.url);
      if (pathname === "/v1/bulk") {
        assert.equal(search, "?operation=person_enrich&max_credits=5");
        assert.equal(request.headers.get("Content-Type"), "application/x-ndjson");
        bodies.push(await request.text());
        return Response.json({ job_id: "j", rows: 2 }, { status: 202 });
      }
      if (pathname === "/v1/bulk/j") return Response.json({ ...job, status: asked++ ? "done" : "running", done: asked });
      const text = '{"reference":"1","person":{}}\n{"reference":"\u00fc","detail":"x"}\n';
      const bytes = new TextEncoder().encode(text);
      const pieces = new ReadableStream({
        start(controller) {
          for (let i = 0; i < bytes.length; i += 7) controller.enqueue(bytes.slice(i, i + 7));
          controller.close();
        },
      });
      return new Response(pieces, { headers: { "Content-Type": "application/x-ndjson" } });
    },
  });
  const id = await submitBulk(client, "person_enrich", [{ email: "a@example.com" }, { reference: "\u00fc" }], { max_credits: 5 });
  assert.equal(bodies[0], '{"email":"a@example.com"}\n{"reference":"\u00fc"}\n');
  const seen: number[] = [];
  assert.equal((await waitBulk(client, id, (running) => seen.push(running.done))).status, "done");
  assert.deepEqual(seen, [1]);
  const results = [];
  for await (const result of bulkResults(client, id)) results.push(result.reference);
  assert.deepEqual(results, ["1", "\u00fc"]);
});

test("results of an unfinished job are an error", async () => {
  const client = muster({
    baseUrl: "http://127.0.0.1:1",
    apiKey: "mk_live_x",
    fetch: async () => Response.json({ status: "running" }, { status: 202 }),
  });
  await assert.rejects(async () => {
    for await (const result of bulkResults(client, "j")) assert.fail(result.reference);
  }, /waitBulk/);
});
