"""Runs the steps of STEPS on the server of SERVER with the official Python client; prints what it got, as JSON."""

import asyncio
import json
import os

from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client


def wire(model):
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


async def run(client, step):
    try:
        if "list" in step:
            return [wire(tool) for tool in (await client.list_tools()).tools]
        if "read" in step:
            return [wire(content) for content in (await client.read_resource(step["read"])).contents]
        result = await client.call_tool(step["call"], step["arguments"])
    except MCPError as e:
        return {"code": e.error.code}
    out = {"text": [content.text for content in result.content], "isError": bool(result.is_error)}
    if result.structured_content is not None:
        out["structured"] = result.structured_content
    return out


async def main():
    server = json.loads(os.environ["SERVER"])
    if "url" in server:
        http = create_mcp_http_client(headers=server["headers"])
        connection = streamable_http_client(server["url"], http_client=http)
    else:
        connection = StdioServerParameters(**server)
    async with Client(connection) as client:
        transcript = [await run(client, step) for step in json.loads(os.environ["STEPS"])]
        out = {"server": wire(client.server_info), "instructions": client.instructions, "transcript": transcript}
    print(json.dumps(out))


asyncio.run(main())
