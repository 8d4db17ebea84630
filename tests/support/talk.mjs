// Drives a server with the TypeScript SDK's client and prints what happened as one JSON object.
// node talk.mjs PROJECT_ROOT COMMAND [ARG...]      (run in a directory where the SDK is installed)

import { existsSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const installed = createRequire(process.cwd() + "/");
const load = (name) => import(pathToFileURL(installed.resolve(`@modelcontextprotocol/sdk/${name}`)));
const { Client } = await load("client/index.js");
const { StdioClientTransport } = await load("client/stdio.js");
const { LoggingMessageNotificationSchema } = await load("types.js");

const [root, command, ...args] = process.argv.slice(2);
const seen = { errors: [], logs: [], progress: [] };
const client = new Client({ name: "typescript", version: "1" }, { capabilities: {} });
client.onerror = (error) => seen.errors.push(String(error)); // a progress that comes too late ends here
client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => {
  seen.logs.push([params.level, params.data]);
});
await client.connect(new StdioClientTransport({ command, args, env: process.env, cwd: root, stderr: "inherit" }));

const run = (task_name, more = {}, options = {}) =>
  client.callTool({ name: "run_task", arguments: { task_name, ...more } }, undefined, options);
const failure = (promise) => promise.then(() => "no error", (error) => `${error.code ?? error.name}: ${error.message}`);
const begun = async (file) => { while (!existsSync(`${root}/${file}`)) await sleep(10); };

seen.server = client.getServerVersion();
seen.tools = (await client.listTools()).tools.map((tool) => tool.name).sort();
seen.listing = (await client.callTool({ name: "list_tasks", arguments: {} })).structuredContent;
seen.run = (await run("hello", { args: ["--name", "you"] })).structuredContent;
seen.hello = seen.logs.splice(0);

// Progress keeps a call alive that takes longer than the client's patience.
const onprogress = (progress) => seen.progress.push(progress);
seen.slow = (await run("slow", {}, { onprogress, timeout: 2500, resetTimeoutOnProgress: true })).structuredContent;
seen.slowLogs = seen.logs.splice(0).length;

seen.timedOut = await run("hang", { args: ["first"], timeout: 1 });
seen.impatient = await failure(run("hang", { args: ["second"] }, { timeout: 1500 }));

const controller = new AbortController();
const aborted = failure(run("hang", { args: ["third"] }, { signal: controller.signal }));
await begun("third.pid");
controller.abort("changed my mind");
seen.aborted = await aborted;

// The client validates each answer by the tool's output schema, also one whose exit code is null.
const ask = (name, more) => client.callTool({ name, arguments: more }).then((answer) => answer.structuredContent);
seen.started = await ask("run_task", { task_name: "hang", args: ["fourth"], background: true });
const { run_id } = seen.started;
seen.awaited = await ask("get_run", { run_id, until: "hanging", wait: 60 });
seen.stopped = await ask("stop_run", { run_id });
seen.listed = await ask("get_run", {});

seen.after = (await run("hello")).structuredContent;
await client.close();
console.log(JSON.stringify(seen));
