// Publish a notice, and print it as it comes back: `node notices_amqp.mjs ws://localhost:15670/`
import { AMQPWebSocketClient } from "@cloudamqp/amqp-client";

globalThis.WebSocket ??= (await import("ws")).WebSocket; // Node has one of its own since 22

const client = new AMQPWebSocketClient(process.argv[2] ?? "ws://localhost:15670/", "/", "guest", "guest");
const connection = await client.connect();
const channel = await connection.channel();
await channel.confirmSelect();
await channel.exchangeDeclare("notices", "fanout");
const { name } = await channel.queueDeclare("");
await channel.queueBind(name, "notices", "");

const consumer = await channel.basicConsume(name, { noAck: false }, async (message) => {
  console.log(message.bodyString());
  await message.ack();
  await consumer.cancel();
  await connection.close();
});
await channel.basicPublish("notices", "", "hello from Node", { contentType: "text/plain" });
