/**
 * The TypeScript client of the muster API. The types are generated from
 * openapi.yaml; here are the retries, the walk through a search, and the check
 * of a webhook's signature. It needs a runtime with fetch: Node 18 or newer, or
 * a browser.
 */
import { type Client } from "openapi-fetch";
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
export declare class ApiError extends Error {
    readonly status: number;
    /** Quote it when asking the operator for help. */
    readonly requestId: string | null;
    constructor(status: number, detail: string, 
    /** Quote it when asking the operator for help. */
    requestId: string | null);
}
/**
 * A client with one typed method for each HTTP method, as in
 * client.POST("/v1/person/enrich", { body: { codehost: "octavia" } }).
 *
 * A call is sent again after a broken connection, and after an answer of 409,
 * 429, 500 or 503 with Retry-After, when that long has passed. Every POST gets an
 * Idempotency-Key, so that what was sent twice is not charged twice.
 */
export declare function muster(options: Options): Client<paths>;
/**
 * Everybody whom a search finds, page by page: `size` is that of a page, each
 * result is charged when its page is fetched. It throws an ApiError.
 */
export declare function people(client: Client<paths>, search: SearchRequest, signal?: AbortSignal): AsyncGenerator<Person, void, undefined>;
/**
 * Checks the signature and the age of a delivery and returns what it carries: the
 * profile, or `detail` of a task that failed. `body` is what came, before
 * anything parsed it; `secrets` are the organization's, two while one is rotated.
 * It throws a WebhookVerificationError.
 */
export declare function verifyWebhook(secrets: string | string[], headers: Headers | Record<string, string | string[] | undefined>, body: string): ContextProfile | {
    detail: string;
};
