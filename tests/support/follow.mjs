// Follows the tools of a server with the TypeScript SDK's client and prints what happened as one JSON object.
// node follow.mjs FILE SOURCE TOOL ARGUMENTS COMMAND [ARG...]   (run in a directory where the SDK is installed)
// Lists the tools, calls TOOL, writes SOURCE into FILE, waits until it is told of the change, and lists them again.

import { writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const installed = createRequire(process.cwd() + "/");
const load = (name) => import(pathToFileURL(installed.resolve(`@modelcontextprotocol/sdk/${name}`)));
const { Client } = await load("client/index.js");
const { StdioClientTransport } = await load("client/stdio.js");
const { ToolListChangedNotificationSchema } = await load("types.js");

const [file, source, tool, given, command, ...args] = process.argv.slice(2);
const client = new Client({ name: "typescript", version: "1" }, { capabilities: {} });
const changed = new Promise((resolve) => client.setNotificationHandler(ToolListChangedNotificationSchema, resolve));
await client.connect(new StdioClientTransport({ command, args, env: process.env, stderr: "inherit" }));

const names = async () => (await client.listTools()).tools.map((each) => each.name).sort();
const seen = { promised: client.getServerCapabilities().tools.listChanged, before: await names() };
seen.answer = (await client.callTool({ name: tool, arguments: JSON.parse(given) })).structuredContent;
writeFileSync(file, source);
await changed;
seen.after = await names();
await client.close();
console.log(JSON.stringify(seen));
