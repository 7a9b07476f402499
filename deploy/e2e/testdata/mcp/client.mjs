// Runs the steps of STEPS on the server of SERVER with the official TypeScript client; prints what it got, as JSON.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const server = JSON.parse(process.env.SERVER);
const transport = server.url
  ? new StreamableHTTPClientTransport(new URL(server.url), { requestInit: { headers: server.headers } })
  : new StdioClientTransport({ ...server, stderr: "inherit" });
const client = new Client({ name: "e2e", version: "1.0.0" });
await client.connect(transport);

const transcript = [];
for (const step of JSON.parse(process.env.STEPS)) {
  try {
    if (step.list) transcript.push((await client.listTools()).tools);
    else if (step.read) transcript.push((await client.readResource({ uri: step.read })).contents);
    else {
      const result = await client.callTool({ name: step.call, arguments: step.arguments });
      const text = result.content.map((c) => c.text);
      transcript.push({ text, structured: result.structuredContent, isError: result.isError ?? false });
    }
  } catch (e) {
    transcript.push({ code: e.code });
  }
}
await client.close();
console.log(JSON.stringify({ server: client.getServerVersion(), instructions: client.getInstructions(), transcript }));
