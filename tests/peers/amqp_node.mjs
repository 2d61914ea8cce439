// CloudAMQP's client in Node over WebSocket: `node amqp_node.mjs ws://HOST:PORT/ FOLDER`, where FOLDER has node_modules.
// It ends with 0 and a line for each part.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [url, folder] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${folder}/`));
const { AMQPWebSocketClient } = require("@cloudamqp/amqp-client");
globalThis.WebSocket ??= require("ws").WebSocket; // Node has one of its own since 22

const client = (password = "guest", frameMax = 131072) =>
  new AMQPWebSocketClient(url, "/", "guest", password, "node", frameMax, 0);
const waiting = () => {
  let resolve;
  return [new Promise((done) => (resolve = done)), resolve];
};

const parts = {
  async "a thousand confirmed messages come back in order, each acked"() {
    const connection = await client().connect();
    const channel = await connection.channel();
    await channel.confirmSelect();
    const { name } = await channel.queueDeclare("");
    const texts = Array.from({ length: 1000 }, (_, number) => `message ${number}`);
    await Promise.all(texts.map((text) => channel.basicPublish("", name, text, { headers: { text } })));
    const [done, resolve] = waiting(), got = [];
    await channel.basicQos(50);
    await channel.basicConsume(name, { noAck: false }, (message) => {
      assert.equal(message.properties.headers.text, message.bodyString());
      got.push(message.bodyString());
      message.ack();
      if (got.length === texts.length) resolve();
    });
    await done;
    assert.deepEqual(got, texts);
    await connection.close();
  },

  async "bodies of many frames come back whole, whatever the largest frame is"() {
    for (const frameMax of [8192, 131072]) {
      const connection = await client("guest", frameMax).connect();
      const channel = await connection.channel();
      const { name } = await channel.queueDeclare("");
      const body = new Uint8Array(3_000_000).map((_, place) => place * 7);
      const [done, resolve] = waiting();
      await channel.basicConsume(name, { noAck: true }, resolve);
      await channel.basicPublish("", name, body);
      assert.deepEqual((await done).body, body);
      await connection.close();
    }
  },

  async "a wrong password is refused with the reason"() {
    await assert.rejects(client("wrong").connect(), /ACCESS_REFUSED/);
  },

  async "an error closes its channel and no other"() {
    const connection = await client().connect();
    const [bad, good] = [await connection.channel(), await connection.channel()];
    await assert.rejects(bad.queueDeclare("there is none", { passive: true }), /NOT_FOUND/);
    assert.ok((await good.queueDeclare("")).name);
    await connection.close();
  },

  async "the socket is closed in order"() {
    const connection = await client().connect();
    const [done, resolve] = waiting();
    connection.socket.addEventListener("close", resolve);
    await connection.close();
    assert.equal((await done).wasClean, true);
  },

  async "text is refused with 1003"() {
    const socket = new WebSocket(url, "amqp");
    const [opened, open] = waiting(), [closed, close] = waiting();
    socket.onopen = open;
    socket.onclose = close;
    await opened;
    assert.equal(socket.protocol, "amqp");
    socket.send("AMQP");
    assert.deepEqual((({ code, wasClean }) => [code, wasClean])(await closed), [1003, true]);
  },
};

for (const [name, part] of Object.entries(parts)) {
  await part();
  console.log(`ok - ${name}`);
}
