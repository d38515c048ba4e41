// Client of the Pet Store API. Start with `Client`.

export { Client, type FollowOptions } from "./client.js";
export * from "./errors.js";
export type * from "./models.js";
export type { ClientOptions, PostOptions } from "./transport.js";
export { verifyWebhook } from "./webhooks.js";
