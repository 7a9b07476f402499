/**
 * The TypeScript client of the muster API. The types are generated from
 * openapi.yaml; here are the retries, the walk through a search, and the check
 * of a webhook's signature. It needs a runtime with fetch: Node 18 or newer, or
 * a page of the API's own origin, since the API answers no CORS preflight.
 */
import createClient, { type Client } from "openapi-fetch";
import { Webhook } from "standardwebhooks";
import type { components, paths } from "./schema.gen.js";

export type { components, paths } from "./schema.gen.js";
export { WebhookVerificationError } from "standardwebhooks";

/** A person in the shape of a search's results. */
export type Person = components["schemas"]["EnrichedNetwork"];
export type SearchRequest = components["schemas"]["SearchRequest"];
export type ContextProfile = components["schemas"]["ContextProfile"];

export interface Options {
  /** Where the service is, such as http://127.0.0.1:8080. */
  baseUrl: string;
  /** The API key, mk_live_... */
  apiKey: string;
  /** How many times a call is sent again; 4 if left out. */
  retries?: number;
  /** The longest wait that is waited, in milliseconds; 60,000 if left out. An answer that asks for more is returned. */
  maxWait?: number;
  /** What sends a request; the runtime's fetch if left out. */
  fetch?: (request: Request) => Promise<Response>;
}

/** An answer that is an error. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    detail: string,
    /** Quote it when asking the operator for help. */
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
 * A call is sent again after a broken connection, and after an answer of 409,
 * 429, 500 or 503 with Retry-After, when that long has passed. Every POST gets an
 * Idempotency-Key, so that what was sent twice is not charged twice.
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
      const answer = await once(request);
      wait = retryAfter(answer);
      if (wait === undefined || wait > maxWait || attempt >= retries) return answer;
      await answer.body?.cancel();
    } catch (error) {
      if (first.signal.aborted || attempt >= retries) throw error;
      wait = Math.min(maxWait, 250 * 2 ** attempt);
    }
    await pause(wait, first.signal);
  }
}

/**
 * A key that no other call has; it is no secret. Node 18 has no global crypto, and
 * pages that come by plain http have no randomUUID.
 */
function newKey(): string {
  const { crypto } = globalThis as { crypto?: Partial<Crypto> };
  if (crypto?.randomUUID) return crypto.randomUUID();
  return Array.from({ length: 8 }, () => Math.floor(Math.random() * 0x10000).toString(16).padStart(4, "0")).join("");
}

/** How long an answer asks to wait, in milliseconds; undefined: it is final. */
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
 * Everybody whom a search finds, page by page: `size` is that of a page, each
 * result is charged when its page is fetched. It throws an ApiError.
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
    if (next === cursor) return; // pages of size 0 lead nowhere
    cursor = next;
  } while (cursor !== null);
}

/**
 * Checks the signature and the age of a delivery and returns what it carries: the
 * profile, or `detail` of a task that failed. `body` is what came, before
 * anything parsed it; `secrets` are the organization's, two while one is rotated.
 * It throws a WebhookVerificationError.
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
