// Errors, and the rate limit that each response reports.

export const errorCodes = [
  "missing_api_key", "invalid_api_key", "expired_api_key", "insufficient_scope", "account_suspended",
  "malformed_json", "missing_field", "invalid_field", "unknown_category", "invalid_parameter", "pet_not_found",
  "order_not_found", "resource_not_found", "method_not_allowed", "request_timeout", "unsupported_media_type",
  "payload_too_large", "pet_not_available", "order_not_cancellable", "idempotency_key_reused",
  "idempotency_key_in_use", "rate_limit_exceeded", "daily_quota_exceeded", "api_key_banned", "endpoint_removed",
  "cursor_expired", "headers_too_large", "uri_too_long", "service_unavailable", "internal_error",
] as const;

export type ErrorCode = (typeof errorCodes)[number];

// The window with the fewest remaining requests, as the latest response reported it.
export interface RateLimit {
  limit: number;
  remaining: number;
  resetsAt: Date;
}

// A problem of a request body. `index` is the position of the pet in a batch.
export interface ErrorDetail {
  field: string;
  code: string;
  message: string;
  index?: number;
}

// The base class of all errors of this package.
export class PetstoreError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

// No response arrived. The request may have been carried out.
export class ConnectionFailedError extends PetstoreError {}

// The webhook is not signed with any of the secrets, or is too old. Respond with 400.
export class WebhookError extends PetstoreError {}

export interface ErrorFacts {
  readonly status: number;
  // Or one that was added later, or `http_502` and the like for a response that is not from the service.
  readonly code: ErrorCode | (string & {});
  readonly text: string;
  readonly details: ErrorDetail[];
  readonly requestId: string | null;
  readonly retryAfter: number | null; // In seconds.
  readonly quota: RateLimit | null;
}

export interface ApiError extends ErrorFacts {}

// A response with a status of 400 and up.
export class ApiError extends PetstoreError {
  readonly retryAt: Date | null; // When retryAfter ends.

  constructor(facts: ErrorFacts) {
    super(`${facts.status} ${facts.code}: ${facts.text}`);
    Object.assign(this, facts);
    this.retryAt = facts.retryAfter === null ? null : new Date(Date.now() + facts.retryAfter * 1000);
  }
}

// A 429 whose wait exceeds `maxWait`, or that came again after each retry. Requests that would be sent during
// that wait raise it as well, without being sent.
export class RateLimitError extends ApiError {}
