// Node's fetch as a client of RestMS: `node restms_node.mjs http://HOST:PORT`; ends with 0 and a line for each part.
import assert from "node:assert/strict";

const base = process.argv[2];
const login = { Authorization: `Basic ${btoa("guest:guest")}` };
const json = { Accept: "application/json" };
const messages = { "Content-Type": "application/restms+json" };

async function ask(path, { expected = 200, headers = {}, ...options } = {}) {
  const reply = await fetch(new URL(path, base), { ...options, headers: { ...login, ...headers } });
  assert.equal(reply.status, expected, `${options.method ?? "GET"} ${path}: ${reply.status}`);
  return reply;
}

const look = async (path, options) => (await (await ask(path, { headers: json, ...options })).json()).restms;

async function make(path, kind, attributes = {}, expected = 201) {
  const body = JSON.stringify({ restms: { [kind]: [attributes] } });
  const reply = await ask(path, { method: "POST", body, expected, headers: { "Content-Type": "application/json" } });
  return reply.headers.get("Location");
}

async function makePipe() {
  const path = await make("/restms/domain/default", "pipe");
  return { path, name: path.split("/").pop() };
}

async function send(feed, address, ...texts) {
  const content = (value) => ({ address, content: [{ type: "text/plain", value }] });
  const body = JSON.stringify({ restms: { message: texts.map(content) } });
  assert.equal(await (await ask(feed, { method: "POST", body, headers: messages })).text(), "");
}

const textOf = (message) => message.content[0].value;
const texts = async (pipe) => ((await look(`${pipe.path}?messages=100`)).message ?? []).map(textOf);
const asynclet = async (pipe) => (await look(pipe.path)).pipe[0].message.at(-1).href;

const parts = {
  async "polls that wait beside each other are answered in order"() {
    const pipe = await makePipe();
    const got = [];
    const reader = (async () => {
      let uri = await asynclet(pipe);
      while (got.length < 20) {
        got.push(textOf((await look(uri)).message[0]));
        await ask(uri, { method: "DELETE" });
        uri = (await look(pipe.path)).pipe[0].message[0].href;
      }
    })();
    const others = await Promise.all(Array.from({ length: 50 }, makePipe));
    const polls = others.map(async (other) => textOf((await look(await asynclet(other))).message[0]));
    for (let number = 0; number < 20; number += 1) await send("/restms/feed/default", pipe.name, String(number));
    await Promise.all(others.map((other) => send("/restms/feed/default", other.name, "here")));
    await reader;
    assert.deepEqual(got, Array.from({ length: 20 }, (_, number) => String(number)));
    assert.deepEqual(new Set(await Promise.all(polls)), new Set(["here"]));
  },

  async "a poll that is given up has taken nothing"() {
    const pipe = await makePipe();
    const uri = await asynclet(pipe);
    await assert.rejects(look(uri, { signal: AbortSignal.timeout(50), headers: json }), { name: "TimeoutError" });
    await send("/restms/feed/default", pipe.name, "kept");
    assert.equal(textOf((await look(uri)).message[0]), "kept");
  },

  async "Prefer bounds a poll"() {
    const pipe = await makePipe();
    const reply = await ask(await asynclet(pipe), { expected: 204, headers: { ...json, Prefer: "wait=1" } });
    assert.equal(reply.body, null);
  },

  async "a stream is staged, and read again as a stream"() {
    const pipe = await makePipe();
    const sent = crypto.getRandomValues(new Uint8Array(60_000));
    const body = new ReadableStream({
      start(controller) {
        for (let number = 0; number < 10; number += 1) controller.enqueue(sent);
        controller.close();
      },
    });
    const headers = { "Content-Type": "image/png" };
    const options = { method: "POST", body, duplex: "half", headers, expected: 201 };
    const staged = (await ask("/restms/feed/default", options)).headers.get("Location");
    const document = JSON.stringify({ restms: { message: [{ address: pipe.name, content: [{ href: staged }] }] } });
    await ask("/restms/feed/default", { method: "POST", body: document, headers: messages });
    const [content] = (await look(`${pipe.path}?messages=1`)).message[0].content;
    const reply = await ask(content.href);
    assert.equal(reply.headers.get("Content-Type"), "image/png");
    const got = [];
    for await (const piece of reply.body) got.push(...piece);
    assert.deepEqual(got.length, 600_000);
    assert.deepEqual(Uint8Array.from(got.slice(-60_000)), sent);
  },

  async "events come while they are read, and end with their pipe"() {
    const pipe = await makePipe();
    const reply = await ask(pipe.path, { headers: { Accept: "text/event-stream" } });
    const seen = [];
    const reading = (async () => {
      let rest = "";
      for await (const piece of reply.body.pipeThrough(new TextDecoderStream())) {
        const lines = (rest + piece).split("\n");
        rest = lines.pop();
        for (const line of lines)
          if (line.startsWith("data: ")) seen.push(textOf(JSON.parse(line.slice(6)).restms.message[0]));
      }
    })();
    await send("/restms/feed/default", pipe.name, "1", "2");
    await send("/restms/feed/default", pipe.name, "3 €");
    while (seen.length < 3) await new Promise((resolve) => setImmediate(resolve));
    await ask(pipe.path, { method: "DELETE" });
    await reading;
    assert.deepEqual(seen, ["1", "2", "3 €"]);
  },

  async "a document that is known is not sent again, and a stale PUT is refused"() {
    const feed = await make("/restms/domain/default", "feed", { type: "topic", title: "old" });
    const tag = (await ask(feed, { headers: json })).headers.get("ETag");
    await ask(feed, { expected: 304, headers: { ...json, "If-None-Match": tag } });
    const change = (title, expected) =>
      ask(feed, {
        method: "PUT",
        body: JSON.stringify({ restms: { feed: [{ title }] } }),
        headers: { "Content-Type": "application/json", "If-Match": tag },
        expected,
      });
    await change("new", 200);
    await change("newer", 412);
    assert.equal((await look(feed)).feed[0].title, "new");
    assert.equal((await ask(feed, { method: "HEAD" })).headers.get("Content-Length") > 0, true);
  },

  async "pipes of shared work get one each, and errors are text"() {
    const work = await make("/restms/domain/default", "feed", { type: "rotator" });
    const workers = await Promise.all([1, 2, 3].map(() => make("/restms/domain/default", "pipe", { type: "ondemand" })));
    await Promise.all(workers.map((path) => make(path, "join", { feed: work })));
    const jobs = workers.map(async (path) => look(await asynclet({ path })));
    await send(work, "", "a", "b", "c");
    assert.deepEqual((await Promise.all(jobs)).map((job) => textOf(job.message[0])).sort(), ["a", "b", "c"]);
    const refused = await ask("/restms/feed/default", { method: "DELETE", expected: 403 });
    assert.match(refused.headers.get("Content-Type"), /^text\/plain/);
    assert.notEqual(refused.headers.get("RestMS-Error"), null);
    await ask("/restms/resource/nothing", { expected: 404 });
  },
};

for (const [name, run] of Object.entries(parts)) {
  await run();
  console.log(`ok - ${name}`);
}
