// Calls the API of this server with the key of this tab.

const keyName = "muster.key";
const autoName = "muster.auto";

// The key lives in this tab until it is closed.
export const key = {
  get: () => sessionStorage.getItem(keyName) ?? "",
  set: (value) => (value ? sessionStorage.setItem(keyName, value) : sessionStorage.removeItem(keyName)),
};

// auto reports whether calls that cost credits are sent without asking.
export const auto = {
  get: () => sessionStorage.getItem(autoName) === "yes",
  set: (on) => (on ? sessionStorage.setItem(autoName, "yes") : sessionStorage.removeItem(autoName)),
};

// Refused is the error of a call that was not answered with a result.
export class Refused extends Error {
  constructor(status, detail, request) {
    super(detail);
    this.status = status;
    this.request = request; // X-Request-Id
  }
}

// send sends a call and returns its answer with the headers.
export async function send({ method, path, body }, signal) {
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
    throw new Refused(0, "the server does not answer: check that it runs", "");
  }
  const request = response.headers.get("X-Request-Id") ?? "";
  let answer = null;
  try {
    answer = await response.json();
  } catch (e) {
    if (e.name === "AbortError") throw e;
  }
  if (!response.ok || answer === null) {
    throw new Refused(response.status, answer?.detail ?? `status ${response.status} without an explanation`, request);
  }
  return { answer, headers: response.headers };
}

// cost returns the most that a call may cost, and the credits that are left. It is free.
export async function cost(call, signal) {
  const { answer } = await send({ ...call, body: { ...call.body, dry_run: true } }, signal);
  return { most: answer.max_credits, left: answer.credits_remaining };
}

// curl returns a call as a command for a POSIX shell. The key is its variable KEY, so that a copied line has none.
export function curl({ method, path, body, output }) {
  const quoted = (s) => "'" + s.replaceAll("'", `'\\''`) + "'";
  const parts = [`curl -s ${quoted(location.origin + path)}`, `-H "Authorization: Bearer $KEY"`];
  if (method !== "GET") parts.push("-H 'Content-Type: application/json'", "-d " + quoted(JSON.stringify(body)));
  if (output) parts.push("-o " + output);
  return parts.join(" \\\n  ");
}
