// Calls the API of this server with the key of this tab.

const keyName = "muster.key";
const autoName = "muster.auto";

// key is the API key. The browser stores it until the tab is closed.
export const key = {
  get: () => sessionStorage.getItem(keyName) ?? "",
  set: (value) => (value ? sessionStorage.setItem(keyName, value) : sessionStorage.removeItem(keyName)),
};

// auto reports whether calls that cost credits are sent without asking.
export const auto = {
  get: () => sessionStorage.getItem(autoName) === "yes",
  set: (on) => (on ? sessionStorage.setItem(autoName, "yes") : sessionStorage.removeItem(autoName)),
};

// RequestError is the error of a call without a result. Status 0 means no response.
export class RequestError extends Error {
  constructor(status, detail, request) {
    super(detail);
    this.status = status;
    this.request = request; // X-Request-Id
  }
}

// send sends a call and returns its answer and the response headers. read reads the answer from a response with a 2xx
// status; errors are JSON.
export async function send({ method, path, body }, signal, read = (response) => response.json()) {
  const headers = {};
  if (key.get()) headers.Authorization = "Bearer " + key.get();
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, {
      method,
      headers,
      signal,
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store",
      credentials: "omit",
      redirect: "error",
    });
  } catch (e) {
    if (e.name === "AbortError") throw e;
    throw new RequestError(0, "no response from the server: check that it is running", "");
  }
  const request = response.headers.get("X-Request-Id") ?? "";
  let answer = null;
  try {
    answer = await (response.ok ? read(response) : response.json());
  } catch (e) {
    if (e.name === "AbortError") throw e;
  }
  if (!response.ok || answer === null) {
    throw new RequestError(response.status, answer?.detail ?? "incomplete or unreadable response", request);
  }
  return { answer, headers: response.headers };
}

// cost returns the maximum cost of a call and the remaining credits, from a free dry run.
export async function cost(call, signal) {
  const { answer } = await send({ ...call, body: { ...call.body, dry_run: true } }, signal);
  return { most: answer.max_credits, left: answer.credits_remaining };
}

// curl returns a call as a command for a POSIX shell. The key is in the variable KEY, so that copies do not contain it.
export function curl({ method, path, body, output }) {
  const quoted = (s) => "'" + s.replaceAll("'", `'\\''`) + "'";
  const parts = [`curl -s ${quoted(location.origin + path)}`, `-H "Authorization: Bearer $KEY"`];
  if (method !== "GET") parts.push("-H 'Content-Type: application/json'", "-d " + quoted(JSON.stringify(body)));
  if (output) parts.push("-o " + output);
  return parts.join(" \\\n  ");
}
