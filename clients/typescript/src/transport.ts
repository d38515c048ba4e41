// Sends requests: retries, the shared wait, deprecation warnings, errors, and exact ids.

import { ApiError, ConnectionFailedError, type ErrorFacts, type RateLimit, RateLimitError } from "./errors.js";
import { type Gate, getGate } from "./gate.js";
import type { IdInput } from "./models.js";

const VERSION = "1.0.0";
const [FIRST_BACKOFF, MAX_BACKOFF] = [0.5, 8]; // Seconds.
// Quotes within JSON strings are escaped, so these match only members.
const ID_NUMBERS = /"(id|\w*Id)"\s*:\s*(-?\d+)(?=\s*[,}\]])/g;
const ID_STRINGS = /"(id|\w*Id)":"(-?\d+)"/g;

interface Operation {
  method: "GET" | "POST" | "DELETE";
  path: string; // Relative to the base URL; `{}` is the id.
  query?: string[];
  bucket?: string; // Which limit it counts towards.
}

export const operations = {
  listPets: { method: "GET", path: "/pets", query: ["status", "categoryId", "limit", "cursor"] },
  createPet: { method: "POST", path: "/pets" },
  createPets: { method: "POST", path: "/pets/batch" },
  getPet: { method: "GET", path: "/pets/{}" },
  listCategories: { method: "GET", path: "/categories", query: ["limit", "cursor"] },
  listOrders: { method: "GET", path: "/store/orders", query: ["status", "limit", "cursor"] },
  placeOrder: { method: "POST", path: "/store/orders" },
  getOrder: { method: "GET", path: "/store/orders/{}" },
  cancelOrder: { method: "DELETE", path: "/store/orders/{}" },
  listEvents: { method: "GET", path: "/events", query: ["type", "since", "limit", "cursor"] },
  getAccount: { method: "GET", path: "/account", bucket: "account" },
} satisfies Record<string, Operation>;

export type OperationName = keyof typeof operations;
export type Query = Record<string, string | number | bigint | null | undefined>;

export interface Settings {
  baseUrl: string;
  timeout: number;
  retries: number;
  maxWait: number;
  maxInFlight: number;
}

export interface Call {
  id?: IdInput;
  query?: Query;
  body?: unknown;
  etag?: string;
  idempotencyKey?: string | undefined;
}

// A response below 400.
export interface Reply<T> {
  body: T;
  etag: string;
  nextQuery: Record<string, string> | null; // Of `Link: rel="next"`.
}

export class Transport {
  quota: RateLimit | null = null;
  readonly #key: string;
  readonly #settings: Settings;
  readonly #origin: string;

  constructor(key: string, settings: Settings) {
    if (!/^[\x21-\x7e]+$/.test(key)) throw new TypeError("The key must be visible ASCII characters.");
    this.#origin = new URL(settings.baseUrl).origin;
    this.#key = key;
    this.#settings = settings;
  }

  // Send an operation, with retries. Throws ApiError and ConnectionFailedError.
  async send<T>(name: OperationName, call: Call = {}): Promise<Reply<T>> {
    const operation: Operation = operations[name];
    const url = this.#settings.baseUrl.replace(/\/+$/, "") + buildPath(operation, call);
    const headers: Record<string, string> = { Authorization: `Bearer ${this.#key}`, Accept: "application/json" };
    if (typeof document === "undefined") headers["User-Agent"] = `petstore-client-typescript/${VERSION}`;
    if (call.etag) headers["If-None-Match"] = call.etag;
    if (operation.method === "POST") {
      headers["Content-Type"] = "application/json";
      headers["Idempotency-Key"] = call.idempotencyKey ?? crypto.randomUUID();
    }
    const init: RequestInit = { method: operation.method, headers, redirect: "error" };
    if (call.body !== undefined) init.body = encode(call.body);
    const gate = getGate(this.#origin, this.#key, operation.bucket ?? "");
    for (let attempt = 0; ; attempt++) {
      await gate.enter(this.#settings.maxInFlight, this.#settings.maxWait);
      try {
        return await this.#sendOnce<T>(gate, name, url, init);
      } catch (error) {
        if (attempt >= this.#settings.retries || !isRetryable(error)) throw error;
        if (!(error instanceof ApiError) || error.retryAfter === null) {
          await sleep((Math.min(FIRST_BACKOFF * 2 ** attempt, MAX_BACKOFF) * (1 + Math.random())) / 2);
        }
      }
    }
  }

  async #sendOnce<T>(gate: Gate, name: OperationName, url: string, init: RequestInit): Promise<Reply<T>> {
    let failure: unknown;
    try {
      const signal = AbortSignal.timeout(this.#settings.timeout * 1000);
      const response = await fetch(url, { ...init, signal });
      const text = await response.text();
      const quota = parseRateLimit(response.headers);
      this.quota = quota ?? this.quota;
      if (response.status >= 400) throw buildError(response, text, quota);
      warnOfDeprecation(name, response.headers);
      return {
        body: text ? decode(text) : null,
        etag: response.headers.get("ETag") ?? "",
        nextQuery: parseNextQuery(response.headers.get("Link")),
      };
    } catch (error) {
      failure = error;
      if (error instanceof ApiError) throw error;
      throw new ConnectionFailedError(`${init.method} ${url}: ${error}`, { cause: error });
    } finally {
      gate.leave(failure);
    }
  }
}

export function sleep(seconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, seconds * 1000);
    signal?.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}

function buildPath(operation: Operation, { id = "", query = {} }: Call): string {
  const sent = Object.entries(query).filter(([, value]) => value !== null && value !== undefined);
  const text = new URLSearchParams(sent.map(([name, value]) => [name, String(value)])).toString();
  return operation.path.replace("{}", encodeURIComponent(checkId(id))) + (text && `?${text}`);
}

// Throws TypeError for a number that is not exact.
function checkId(id: IdInput): string {
  if (typeof id === "number" && !Number.isSafeInteger(id)) throw new TypeError(`${id} is not an exact integer.`);
  return String(id);
}

// JSON, with ids as integers.
export function encode(body: unknown): string {
  const isId = (name: string) => name === "id" || name.endsWith("Id");
  const text = JSON.stringify(body, (name, value) => (isId(name) ? checkId(value) : value));
  return text.replace(ID_STRINGS, '"$1":$2');
}

// Parse JSON, with ids as strings.
export function decode(text: string): any {
  return JSON.parse(text.replace(ID_NUMBERS, '"$1":"$2"'));
}

function isRetryable(error: unknown): boolean {
  if (!(error instanceof ApiError)) return error instanceof ConnectionFailedError;
  return [408, 429].includes(error.status) || error.status >= 500 || error.code === "idempotency_key_in_use";
}

function parseRateLimit(headers: Headers): RateLimit | null {
  const [limit, remaining, reset] = ["Limit", "Remaining", "Reset"].map((name) => headers.get(`X-RateLimit-${name}`));
  if (!limit || !remaining || !reset) return null;
  return { limit: Number(limit), remaining: Number(remaining), resetsAt: new Date(Number(reset) * 1000) };
}

// Parse seconds or a date (RFC 9110 section 10.2.3); the service sends seconds, a proxy may not.
function parseRetryAfter(text: string | null): number | null {
  if (text === null) return null;
  const seconds = /^\d+$/.test(text) ? Number(text) : (Date.parse(text) - Date.now()) / 1000;
  return Number.isNaN(seconds) ? null : Math.max(seconds, 0);
}

// Return only the query, so that the key is never sent to another host than that of `baseUrl`.
function parseNextQuery(link: string | null): Record<string, string> | null {
  const target = /<([^>]*)>\s*;\s*rel="next"/.exec(link ?? "")?.[1];
  return target === undefined ? null : Object.fromEntries(new URL(target).searchParams);
}

function buildError(response: Response, text: string, quota: RateLimit | null): ApiError {
  const { status, headers } = response;
  let body: Partial<Record<string, any>> = {};
  try {
    body = JSON.parse(text) ?? {};
  } catch {
    // Not from the service.
  }
  const retryAfter = parseRetryAfter(headers.get("Retry-After"));
  const facts: ErrorFacts = {
    status,
    code: typeof body.code === "string" ? body.code : `http_${status}`,
    text: typeof body.message === "string" ? body.message : response.statusText,
    details: Array.isArray(body.details) ? body.details : [],
    requestId: headers.get("X-Request-Id"),
    retryAfter: status === 429 ? (retryAfter ?? 1) : retryAfter,
    quota,
  };
  return status === 429 ? new RateLimitError(facts) : new ApiError(facts);
}

const warned = new Set<OperationName>();

// Warn once in this process if the operation is deprecated (RFC 9745, RFC 8594).
function warnOfDeprecation(name: OperationName, headers: Headers): void {
  const sunset = headers.get("Sunset");
  if ((sunset === null && !headers.has("Deprecation")) || warned.has(name)) return;
  warned.add(name);
  console.warn(`${name} is deprecated.${sunset ? ` It will be removed on ${sunset}.` : ""}`);
}
