/**
 * The TypeScript client of the muster API: types generated from openapi.yaml,
 * retries, iteration over search results, bulk jobs, and webhook verification. It needs a
 * runtime with fetch: Node 18 or newer, or a web page whose origin the operator
 * allows (--cors-origin).
 */
import createClient, { type Client } from "openapi-fetch";
import { Webhook } from "standardwebhooks";
import type { components, paths } from "./schema.gen.js";

export type { components, paths } from "./schema.gen.js";
export { WebhookVerificationError } from "standardwebhooks";

/** A person in the shape of a search's results. */
export type Person = components["schemas"]["EnrichedNetwork"];
export type SearchRequest = components["schemas"]["SearchRequest"];
export type BulkJob = components["schemas"]["BulkJob"];
export type BulkOperation = components["schemas"]["BulkOperation"];
export type ContextProfile = components["schemas"]["ContextProfile"];

export interface Options {
  /** URL of the service, such as http://127.0.0.1:8080. */
  baseUrl: string;
  /** The API key, mk_live_... */
  apiKey: string;
  /** Maximum number of retries of a call; default 4. */
  retries?: number;
  /** Maximum wait before a retry, in milliseconds; default 60,000. A response with a longer Retry-After is returned. */
  maxWait?: number;
  /** Sends a request; default: the runtime's fetch. */
  fetch?: (request: Request) => Promise<Response>;
}

/** An error response. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    detail: string,
    /** Identifies the call in support requests. */
    readonly requestId: string | null,
  ) {
    super(detail);
    this.name = "ApiError";
  }
}

/**
 * A client with one typed method for each HTTP method, as in
 * client.POST("/v1/person/enrich", { body: { codehost: "octavia" } }).
 *
 * A call is retried after a broken connection, a truncated response, and a
 * response of 409, 429, 500 or 503 with Retry-After, after that time. Every POST
 * gets an Idempotency-Key, so that a retry is not charged again.
 */
export function muster(options: Options): Client<paths> {
  return createClient<paths>({
    baseUrl: options.baseUrl,
    headers: { Authorization: `Bearer ${options.apiKey}` },
    querySerializer: { array: { style: "form", explode: false } },
    fetch: (request) => send(request, options),
  });
}

async function send(first: Request, options: Options): Promise<Response> {
  const { retries = 4, maxWait = 60_000, fetch: once = fetch } = options;
  if (first.method === "POST" && !first.headers.has("Idempotency-Key")) {
    first.headers.set("Idempotency-Key", newKey());
  }
  for (let attempt = 0; ; attempt++) {
    const request = first.clone();
    let wait: number | undefined;
    try {
      const response = await once(request);
      wait = retryAfter(response);
      if (wait === undefined || wait > maxWait || attempt >= retries) {
        if (response.headers.get("Content-Type")?.startsWith("application/x-ndjson")) return response; // read as a stream
        const body = await response.arrayBuffer(); // here, since it may be truncated
        return new Response(body.byteLength > 0 ? body : null, response);
      }
      await response.body?.cancel();
    } catch (error) {
      if (first.signal.aborted || attempt >= retries) throw error;
      wait = Math.min(maxWait, 250 * 2 ** attempt);
    }
    await pause(wait, first.signal);
  }
}

/**
 * Returns a unique key; it is not secret. Node 18 has no global crypto, and pages
 * served over plain HTTP have no randomUUID.
 */
function newKey(): string {
  const { crypto } = globalThis as { crypto?: Partial<Crypto> };
  if (crypto?.randomUUID) return crypto.randomUUID();
  return Array.from({ length: 8 }, () => Math.floor(Math.random() * 0x10000).toString(16).padStart(4, "0")).join("");
}

/** Returns the wait before a retry, in milliseconds; undefined: the response is final. */
function retryAfter(answer: Response): number | undefined {
  const seconds = Number(answer.headers.get("Retry-After") ?? Number.NaN);
  return [409, 429, 500, 503].includes(answer.status) && seconds >= 0 ? seconds * 1000 : undefined;
}

function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", abort);
      resolve();
    }, milliseconds);
    signal.addEventListener("abort", abort, { once: true });
    if (signal.aborted) abort();
  });
}

/**
 * Iterates over the results of a search, page by page. `size` is the page size; a
 * result is charged when its page is fetched. Throws an ApiError.
 */
export async function* people(client: Client<paths>, search: SearchRequest, signal?: AbortSignal): AsyncGenerator<Person, void, undefined> {
  let cursor = search.cursor ?? null;
  do {
    const { data, error, response } = await client.POST("/v1/person/search", { body: { ...search, cursor }, signal });
    if (data === undefined) {
      throw new ApiError(response.status, error.detail, response.headers.get("X-Request-Id"));
    }
    yield* data.results ?? [];
    const next: string | null = data.next_cursor ?? null;
    if (next === cursor) return; // a page of size 0 does not advance
    cursor = next;
  } while (cursor !== null);
}

/** The result of a row of a job: the response of its operation, or `detail`. */
export interface BulkResult {
  /** That of the row, or its number. */
  reference: string;
  detail?: string;
  miss_reason?: string;
  websets_matched?: components["schemas"]["PersonEnrichResult"]["websets_matched"];
  person?: components["schemas"]["PersonEnrichResult"]["person"];
  matched?: boolean;
  company?: components["schemas"]["Company"] | null;
  socials?: components["schemas"]["Social"][];
  degraded?: string[];
}

export interface BulkOptions {
  /** Maximum cost of the job in credits. */
  max_credits?: number;
  /** Address to deliver the finished job to. */
  webhook_url?: string;
  signal?: AbortSignal;
}

/** Submits rows, such as { reference: "1", email: "..." }, as a job, and returns its id. Throws an ApiError. */
export async function submitBulk(
  client: Client<paths>,
  operation: BulkOperation,
  rows: Iterable<object>,
  { signal, ...query }: BulkOptions = {},
): Promise<string> {
  let body = "";
  for (const row of rows) body += JSON.stringify(row) + "\n";
  const { data, error, response } = await client.POST("/v1/bulk", {
    params: { query: { operation, ...query } },
    headers: { "Content-Type": "application/x-ndjson" },
    body,
    bodySerializer: (text) => text,
    signal,
  });
  if (data === undefined || !("job_id" in data)) {
    throw new ApiError(response.status, error?.detail ?? response.statusText, response.headers.get("X-Request-Id"));
  }
  return data.job_id;
}

/** Waits until a job is done or has failed, and returns it. `progress` is called with each status before. */
export async function waitBulk(
  client: Client<paths>,
  job_id: string,
  progress?: (job: BulkJob) => void,
  signal: AbortSignal = new AbortController().signal,
): Promise<BulkJob> {
  for (let wait = 200; ; wait = Math.min(5000, 2 * wait)) {
    const { data, error, response } = await client.GET("/v1/bulk/{job_id}", { params: { path: { job_id } }, signal });
    if (data === undefined) throw new ApiError(response.status, error.detail, response.headers.get("X-Request-Id"));
    if (data.status === "done" || data.status === "failed") return data;
    progress?.(data);
    await pause(wait, signal);
  }
}

/** Iterates over the results of a finished job without `fields`, in the order of its rows. Throws an ApiError. */
export async function* bulkResults(
  client: Client<paths>,
  job_id: string,
  signal?: AbortSignal,
): AsyncGenerator<BulkResult, void, undefined> {
  const { data, error, response } = await client.GET("/v1/bulk/{job_id}/results", {
    params: { path: { job_id } },
    parseAs: "stream",
    signal,
  });
  if (!data || response.status !== 200) {
    const detail = error?.detail ?? "the job is not done: call waitBulk";
    throw new ApiError(response.status, detail, response.headers.get("X-Request-Id"));
  }
  const decoder = new TextDecoder();
  let rest = "";
  const reader = (data as ReadableStream<Uint8Array>).getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      const lines = (rest + decoder.decode(value, { stream: !done })).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) yield JSON.parse(line) as BulkResult;
      if (done) return;
    }
  } finally {
    await reader.cancel();
  }
}

/**
 * Verifies the signature and the age of a delivery, and returns its content: the
 * profile, or `detail` of a failed task. `body` is the raw request body; `secrets`
 * are the organization's, two during a rotation. Throws a
 * WebhookVerificationError.
 */
export function verifyWebhook(
  secrets: string | string[],
  headers: Headers | Record<string, string | string[] | undefined>,
  body: string,
): ContextProfile | { detail: string } {
  const plain: Record<string, string> = {};
  for (const [name, value] of headers instanceof Headers ? headers : Object.entries(headers)) {
    if (typeof value === "string") plain[name.toLowerCase()] = value;
  }
  let refusal: unknown;
  for (const secret of [secrets].flat()) {
    try {
      return new Webhook(secret).verify(body, plain) as ContextProfile | { detail: string };
    } catch (error) {
      refusal = error;
    }
  }
  throw refusal;
}
