// The client and its groups of operations.

import { ApiError, ConnectionFailedError } from "./errors.js";
import { sleep } from "./gate.js";
import { checkId } from "./json.js";
import type {
  AccountOverview, Category, Event, IdInput, NewPet, Order, OrderStatus, Page, Pet, PetStatus,
} from "./models.js";
import { type PostOptions, type Reply, Transport } from "./transport.js";

const MAX_PAGE = 100;

interface PageOptions {
  limit?: number; // 1 to 100, by default 20.
  cursor?: string;
}
interface PetFilter {
  status?: PetStatus;
  categoryId?: IdInput;
  ids?: IdInput[]; // 1 to 100, of which unknown ones are left out.
}
interface OrderFilter {
  status?: OrderStatus;
}
interface EventFilter {
  type?: string; // One type, or a prefix such as `order`.
  since?: Date | string;
}

export interface FollowOptions extends EventFilter {
  cursor?: string | undefined; // The latest that was saved.
  save?: (cursor: string) => unknown; // Is called, and awaited, after the events before the cursor were processed.
  interval?: number; // Seconds between polls; 5 by default.
  signal?: AbortSignal; // Ends the iteration.
  onLost?: (error: ApiError) => unknown; // Events after the cursor are no longer kept.
}

// A client with an API key, for any number of concurrent calls. A wait that Retry-After demands holds for all
// clients of this process with the same key and host.
export class Client extends Transport {
  readonly pets = new Pets(this, "listPets", "/pets");
  readonly categories = new IterableList<Category, object>(this, "listCategories", "/categories");
  readonly orders = new Orders(this, "listOrders", "/store/orders");
  readonly events = new Events(this, "listEvents", "/events");

  // Get the account, the key and both quotas. Free, and possible while other requests must wait.
  async account(): Promise<AccountOverview> {
    return (await this.send<AccountOverview>("getAccount", "GET", "/account", { bucket: "account" })).body;
  }
}

class List<T, Filter extends object> {
  constructor(protected transport: Transport, protected name: string, protected path: string) {}

  // Get a page, ordered by id.
  async list(options?: Filter & PageOptions): Promise<Page<T>> {
    const { body, nextQuery } = await this.fetch({ ...options });
    return Object.assign(body, { nextCursor: nextQuery?.cursor ?? null });
  }

  protected fetch(query: object, etag = ""): Promise<Reply<T[]>> {
    const headers: Record<string, string> = etag ? { "If-None-Match": etag } : {};
    return this.transport.send(this.name, "GET", this.path, { query, headers });
  }
}

class IterableList<T, Filter extends object> extends List<T, Filter> {
  // Yield all rows, ordered by id. Each 100 cost one request.
  async *iterate(filter?: Filter): AsyncGenerator<T, void, undefined> {
    let query: object | null = { ...filter, limit: MAX_PAGE };
    while (query) {
      const reply: Reply<T[]> = await this.fetch(query);
      yield* reply.body;
      query = reply.nextQuery;
    }
  }
}

class Pets extends IterableList<Pet, PetFilter> {
  // Create a pet, once even if it is retried.
  create(pet: NewPet, options?: PostOptions): Promise<Pet> {
    return this.transport.post("createPet", "/pets", pet, options);
  }

  // Create 1 to 100 pets with one request, all or none. Returns them in the same order.
  createMany(pets: NewPet[], options?: PostOptions): Promise<Pet[]> {
    return this.transport.post("createPets", "/pets/batch", { pets }, options);
  }

  // Get a pet. Deprecated by the API: see `list`.
  async get(petId: IdInput): Promise<Pet> {
    return (await this.transport.send<Pet>("getPet", "GET", `/pets/${checkId(petId)}`)).body;
  }
}

// The orders of the key's account.
class Orders extends IterableList<Order, OrderFilter> {
  // Order a pet. Throws ApiError with the code `pet_not_available` if another buyer was faster.
  place(petId: IdInput, options?: PostOptions): Promise<Order> {
    return this.transport.post("placeOrder", "/store/orders", { petId }, options);
  }

  async get(orderId: IdInput): Promise<Order> {
    return (await this.transport.send<Order>("getOrder", "GET", `/store/orders/${checkId(orderId)}`)).body;
  }

  // Cancel an order that is not approved yet. Repeating it changes nothing.
  async cancel(orderId: IdInput): Promise<void> {
    await this.transport.send("cancelOrder", "DELETE", `/store/orders/${checkId(orderId)}`);
  }
}

class Events extends List<Event, EventFilter> {
  // Yield events as they happen, until `signal` aborts. Outages are waited for. If events after the cursor are
  // no longer kept, `onLost` is called, or a warning printed, and the oldest event kept is next.
  async *follow(options: FollowOptions = {}): AsyncGenerator<Event, void, undefined> {
    const { type, since, cursor, save, interval = 5, signal } = options;
    const onLost = options.onLost ?? (() => console.warn("Events after the cursor are no longer kept, and are lost."));
    const wakers = new Set<() => void>();
    signal?.addEventListener("abort", () => wakers.forEach((wake) => wake()), { once: true });
    const pause = (seconds: number) => sleep(signal?.aborted ? 0 : seconds, wakers);
    const start = { type, limit: MAX_PAGE };
    let query: Record<string, unknown> = { ...start, ...(cursor ? { cursor } : { since }) };
    let [etag, failures] = ["", 0];
    while (!signal?.aborted) {
      let reply: Reply<Event[] | null>;
      try {
        reply = await this.fetch(query, etag);
      } catch (error) {
        if (error instanceof ApiError && error.code === "cursor_expired") {
          await onLost(error);
          [query, etag] = [start, ""];
        } else if (error instanceof ConnectionFailedError || (error instanceof ApiError && error.status >= 500)) {
          await pause(Math.max(interval, Math.min(2 ** ++failures, 60)));
        } else throw error;
        continue;
      }
      failures = 0;
      yield* reply.body ?? [];
      const next = reply.nextQuery?.cursor;
      if (next && next !== query.cursor) await save?.(next);
      [query, etag] = [reply.nextQuery ?? query, reply.etag];
      if (!reply.body?.length) await pause(interval);
    }
  }
}
