// Sends requests: retries, the shared wait, deprecation warnings, and errors.

import { ApiError, ConnectionFailedError, type ErrorFacts, type RateLimit, RateLimitError } from "./errors.js";
import { getGate, sleep } from "./gate.js";
import { checkId, decode, encode } from "./json.js";
import type { IdInput } from "./models.js";

const VERSION = "1.0.0";
const [FIRST_BACKOFF, MAX_BACKOFF] = [0.5, 8]; // Seconds.

export interface ClientOptions {
  baseUrl: string; // Ends in `/v1`.
  timeout?: number; // Seconds to wait for a response; 30 by default.
  retries?: number; // After connection errors, 408, 409 `idempotency_key_in_use`, 429 and 5xx; 2 by default.
  maxWait?: number; // If Retry-After demands more seconds, RateLimitError is thrown at once; 60 by default.
  maxInFlight?: number; // Concurrent requests with the key; 8 by default.
}

export interface PostOptions {
  idempotencyKey?: string; // Of your own, to repeat a POST safely after a restart (for 24 hours).
}

// A response below 400. There is no body with a 304.
export interface Reply<T> {
  body: T;
  etag: string;
  nextQuery: Record<string, string> | null; // Of `Link: rel="next"`.
}

export class Transport {
  quota: RateLimit | null = null; // As the latest response reported it.
  readonly #key: string;
  readonly #options: Required<ClientOptions>;

  constructor(key: string, options: ClientOptions) {
    if (!/^[\x21-\x7e]+$/.test(key)) throw new TypeError("The key must be visible ASCII characters.");
    new URL(options.baseUrl); // Throws TypeError.
    this.#key = key;
    this.#options = { timeout: 30, retries: 2, maxWait: 60, maxInFlight: 8, ...options };
  }

  /** @internal */
  async post<T>(name: string, path: string, body: unknown, { idempotencyKey }: PostOptions = {}): Promise<T> {
    const headers = { "Content-Type": "application/json", "Idempotency-Key": idempotencyKey ?? crypto.randomUUID() };
    return (await this.send<T>(name, "POST", path, { headers, body: encode(body) })).body;
  }

  /** @internal Send an operation, with retries. Throws ApiError and ConnectionFailedError. */
  async send<T>(
    name: string, method: string, path: string,
    call: { query?: object; headers?: Record<string, string>; body?: string; bucket?: string } = {},
  ): Promise<Reply<T>> {
    const { baseUrl, maxInFlight, maxWait, retries } = this.#options;
    const url = baseUrl.replace(/\/+$/, "") + path + formatQuery(call.query);
    const headers: HeadersInit = { Authorization: `Bearer ${this.#key}`, Accept: "application/json", ...call.headers };
    if (typeof document === "undefined") headers["User-Agent"] = `petstore-client-typescript/${VERSION}`;
    const init: RequestInit = { method, headers, body: call.body ?? null, redirect: "error" };
    const gate = getGate(new URL(url).origin, this.#key, call.bucket ?? "");
    for (let attempt = 0; ; attempt++) {
      await gate.enter(maxInFlight, maxWait);
      let error: unknown;
      try {
        return await this.#sendOnce<T>(name, url, init);
      } catch (caught) {
        error = caught;
      } finally {
        gate.leave(error);
      }
      if (attempt >= retries || !isRetryable(error)) throw error;
      if (!(error instanceof ApiError) || error.retryAfter === null) {
        await sleep((Math.min(FIRST_BACKOFF * 2 ** attempt, MAX_BACKOFF) * (1 + Math.random())) / 2);
      }
    }
  }

  async #sendOnce<T>(name: string, url: string, init: RequestInit): Promise<Reply<T>> {
    try {
      const response = await fetch(url, { ...init, signal: AbortSignal.timeout(this.#options.timeout * 1000) });
      const { headers, status } = response;
      const text = await response.text();
      this.quota = parseRateLimit(headers) ?? this.quota;
      if (status >= 400) throw buildError(response, text);
      warnOfDeprecation(name, headers);
      const nextQuery = parseNextQuery(headers.get("Link"));
      return { body: text ? decode(text) : null, etag: headers.get("ETag") ?? "", nextQuery };
    } catch (error) {
      if (error instanceof ApiError) throw error;
      throw new ConnectionFailedError(`${init.method} ${url}: ${error}`, { cause: error });
    }
  }
}

function formatQuery(query: object = {}): string {
  const sent = Object.entries(query).filter(([, value]) => value !== null && value !== undefined);
  const format = (value: Date | IdInput | IdInput[]) =>
    value instanceof Date ? value.toISOString() : [value].flat().map(checkId).join(",");
  return sent.length ? `?${new URLSearchParams(sent.map(([name, value]) => [name, format(value)]))}` : "";
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

function buildError({ status, statusText, headers }: Response, text: string): ApiError {
  let body: Partial<Record<string, any>> = {};
  try {
    body = JSON.parse(text) ?? {};
  } catch {} // Not from the service.
  const retryAfter = parseRetryAfter(headers.get("Retry-After"));
  const facts: ErrorFacts = {
    status,
    code: typeof body.code === "string" ? body.code : `http_${status}`,
    text: typeof body.message === "string" ? body.message : statusText,
    details: Array.isArray(body.details) ? body.details : [],
    requestId: headers.get("X-Request-Id"),
    retryAfter: status === 429 ? (retryAfter ?? 1) : retryAfter,
    quota: parseRateLimit(headers),
  };
  return status === 429 ? new RateLimitError(facts) : new ApiError(facts);
}

const warned = new Set<string>();

// Warn once in this process if the operation is deprecated (RFC 9745, RFC 8594).
function warnOfDeprecation(name: string, headers: Headers): void {
  const sunset = headers.get("Sunset");
  if ((sunset === null && !headers.has("Deprecation")) || warned.has(name)) return;
  warned.add(name);
  console.warn(`${name} is deprecated.${sunset ? ` It will be removed on ${sunset}.` : ""}`);
}
