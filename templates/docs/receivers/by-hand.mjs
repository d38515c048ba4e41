import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";

const key = Buffer.from(process.env.WEBHOOK_SECRET.replace("whsec_", ""), "base64");

function isSigned(headers, body) {
  const timestamp = headers["webhook-timestamp"];
  if (!(Math.abs(Date.now() / 1000 - timestamp) < 300)) return false;
  const hmac = createHmac("sha256", key).update(`${headers["webhook-id"]}.${timestamp}.`).update(body);
  const expected = Buffer.from(`v1,${hmac.digest("base64")}`);
  const signatures = (headers["webhook-signature"] ?? "").split(" ").map((each) => Buffer.from(each));
  return signatures.some((each) => each.length === expected.length && timingSafeEqual(each, expected));
}

createServer(async (request, response) => {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const body = Buffer.concat(chunks); // As received: parsing and serializing it would change it.
  if (isSigned(request.headers, body)) {
    const event = JSON.parse(body);
    console.log(event.id, event.type); // Store it here, and process it later.
    response.writeHead(204).end();
  } else {
    response.writeHead(400).end();
  }
}).listen(Number(process.env.PORT), "127.0.0.1");
