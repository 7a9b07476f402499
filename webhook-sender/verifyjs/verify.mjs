// Verifies deliveries by npm's standardwebhooks: a line of JSON in,
// {"secret", "headers", "body" (base64)}, a line out, "accepted" or "refused" and why.
import { createInterface } from "node:readline";
import { Webhook } from "standardwebhooks";

for await (const line of createInterface({ input: process.stdin })) {
  const { secret, headers, body } = JSON.parse(line);
  let answer = "accepted";
  try {
    new Webhook(secret).verify(Buffer.from(body, "base64").toString("utf8"), headers);
  } catch (error) {
    answer = `refused ${error.message}`;
  }
  console.log(answer);
}
