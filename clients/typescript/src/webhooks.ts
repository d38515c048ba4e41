// Verifies webhooks (Standard Webhooks 1.0).

import { WebhookError } from "./errors.js";
import type { Event } from "./models.js";
import { decode } from "./json.js";

type HeaderSource = Headers | Record<string, string | string[] | undefined>;

// Return the event of a webhook. Throws WebhookError. `body` is the request body as received, not parsed. Pass
// both secrets while one is being rotated. `tolerance` is in seconds: an older or newer timestamp is rejected,
// since it may be a replay.
export async function verifyWebhook(
  headers: HeaderSource,
  body: string | Uint8Array,
  secrets: string | string[],
  { tolerance = 300, now = Date.now() / 1000 } = {},
): Promise<Event> {
  const entries = headers instanceof Headers ? [...headers] : Object.entries(headers);
  const found = new Map(entries.map(([name, value]) => [name.toLowerCase(), String(value)]));
  const [id, timestamp, signatures] = ["id", "timestamp", "signature"].map((name) => found.get(`webhook-${name}`));
  if (!id || !timestamp || !signatures || !/^\d+$/.test(timestamp)) {
    throw new WebhookError("The webhook's headers are missing or malformed.");
  }
  if (Math.abs(now - Number(timestamp)) > tolerance) {
    throw new WebhookError("The webhook's timestamp is too old or too new.");
  }
  const text = typeof body === "string" ? body : new TextDecoder().decode(body);
  const signed = new TextEncoder().encode(`${id}.${timestamp}.${text}`);
  for (const secret of [secrets].flat()) {
    const algorithm = { name: "HMAC", hash: "SHA-256" };
    const bytes = decodeBase64(secret.replace(/^whsec_/, ""));
    const key = await crypto.subtle.importKey("raw", bytes, algorithm, false, ["verify"]);
    for (const signature of signatures.split(" ")) {
      if (!/^v1,[\w+/]+=*$/.test(signature)) continue;
      // `verify` compares in constant time.
      if (await crypto.subtle.verify("HMAC", key, decodeBase64(signature.slice(3)), signed)) return decode(text);
    }
  }
  throw new WebhookError("The webhook's signature matches no secret.");
}

function decodeBase64(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}
