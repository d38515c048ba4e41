// The client and its groups of operations.

import { ApiError, ConnectionFailedError, type RateLimit } from "./errors.js";
import type {
  AccountOverview, Category, Event, Id, IdInput, NewPet, Order, OrderStatus, Page, Pet, PetStatus,
} from "./models.js";
import { type OperationName, type Query, type Reply, type Settings, sleep, Transport } from "./transport.js";

const MAX_PAGE = 100;

export interface ClientOptions extends Partial<Settings> {
  baseUrl: string; // Ends in `/v1`.
}

interface PageOptions {
  limit?: number; // 1 to 100, by default 20.
  cursor?: string;
}
interface PetFilter {
  status?: PetStatus;
  categoryId?: IdInput;
}
interface OrderFilter {
  status?: OrderStatus;
}
interface EventFilter {
  type?: string; // One type, or a prefix such as `order`.
  since?: Date | string;
}
interface PostOptions {
  idempotencyKey?: string; // Of your own, to repeat a POST safely after a restart (for 24 hours).
}

export interface FollowOptions extends EventFilter {
  cursor?: string | undefined; // The latest that was saved.
  save?: (cursor: string) => unknown; // Is called, and awaited, after the events before the cursor were processed.
  interval?: number; // Seconds between polls; 5 by default.
  signal?: AbortSignal; // Ends the iteration.
  onLost?: (error: ApiError) => unknown; // Events after the cursor are no longer kept.
}

// A client with an API key, for any number of concurrent calls.
//
// `timeout` is the seconds to wait for a response. `retries` are sent after connection errors, 408, 409
// `idempotency_key_in_use`, 429 and 5xx. A wait that Retry-After demands holds for all clients of this process
// with the same key and host. If it takes more than `maxWait` seconds, RateLimitError is thrown at once. At
// most `maxInFlight` requests with the key are sent concurrently.
export class Client {
  readonly pets: Pets;
  readonly categories: Categories;
  readonly orders: Orders;
  readonly events: Events;
  readonly #transport: Transport;

  constructor(key: string, options: ClientOptions) {
    const defaults = { timeout: 30, retries: 2, maxWait: 60, maxInFlight: 8 };
    this.#transport = new Transport(key, { ...defaults, ...options });
    this.pets = new Pets(this.#transport, "listPets");
    this.categories = new Categories(this.#transport, "listCategories");
    this.orders = new Orders(this.#transport, "listOrders");
    this.events = new Events(this.#transport, "listEvents");
  }

  // The rate limit that the latest response reported.
  get quota(): RateLimit | null {
    return this.#transport.quota;
  }

  // Get the account, the key and both quotas. Free, and possible while other requests must wait.
  async account(): Promise<AccountOverview> {
    return (await this.#transport.send<AccountOverview>("getAccount")).body;
  }
}

class List<T, Filter extends object> {
  constructor(
    protected readonly transport: Transport,
    protected readonly operation: OperationName,
  ) {}

  // Get a page, ordered by id.
  async list(options?: Filter & PageOptions): Promise<Page<T>> {
    const reply = await this.transport.send<T[]>(this.operation, { query: toQuery(options) });
    return Object.assign(reply.body, { nextCursor: reply.nextQuery?.cursor ?? null });
  }
}

class IterableList<T, Filter extends object> extends List<T, Filter> {
  // Yield all rows, ordered by id. Each 100 cost one request.
  async *iterate(filter?: Filter): AsyncGenerator<T, void, undefined> {
    let query: Query | null = { ...toQuery(filter), limit: MAX_PAGE };
    while (query) {
      const reply: Reply<T[]> = await this.transport.send<T[]>(this.operation, { query });
      yield* reply.body;
      query = reply.nextQuery;
    }
  }
}

class Pets extends IterableList<Pet, PetFilter> {
  // Create a pet, once even if it is retried.
  async create(pet: NewPet, { idempotencyKey }: PostOptions = {}): Promise<Pet> {
    return (await this.transport.send<Pet>("createPet", { body: pet, idempotencyKey })).body;
  }

  // Create 1 to 100 pets with one request, all or none. Returns them in the same order.
  async createMany(pets: NewPet[], { idempotencyKey }: PostOptions = {}): Promise<Pet[]> {
    return (await this.transport.send<Pet[]>("createPets", { body: { pets }, idempotencyKey })).body;
  }

  // Get a pet. Deprecated by the API: see `list`.
  async get(petId: IdInput): Promise<Pet> {
    return (await this.transport.send<Pet>("getPet", { id: petId })).body;
  }
}

class Categories extends IterableList<Category, object> {}

// The orders of the key's account.
class Orders extends IterableList<Order, OrderFilter> {
  // Order a pet. Throws ApiError with the code `pet_not_available` if another buyer was faster.
  async place(petId: IdInput, { idempotencyKey }: PostOptions = {}): Promise<Order> {
    return (await this.transport.send<Order>("placeOrder", { body: { petId }, idempotencyKey })).body;
  }

  async get(orderId: IdInput): Promise<Order> {
    return (await this.transport.send<Order>("getOrder", { id: orderId })).body;
  }

  // Cancel an order that is not approved yet. Repeating it changes nothing.
  async cancel(orderId: IdInput): Promise<void> {
    await this.transport.send("cancelOrder", { id: orderId });
  }
}

class Events extends List<Event, EventFilter> {
  // Yield events as they happen, until `signal` aborts. Outages are waited for. If events after the cursor are
  // no longer kept, `onLost` is called, or a warning printed, and the oldest event kept is next.
  async *follow(options: FollowOptions = {}): AsyncGenerator<Event, void, undefined> {
    const { type, since, cursor, save, interval = 5, signal, onLost = warnOfLostEvents } = options;
    let query: Query = toQuery({ type, limit: MAX_PAGE, ...(cursor === undefined ? { since } : { cursor }) });
    let etag = "";
    let failures = 0;
    while (!signal?.aborted) {
      let reply: Reply<Event[] | null>;
      try {
        reply = await this.transport.send("listEvents", { query, etag });
      } catch (error) {
        if (error instanceof ApiError && error.code === "cursor_expired") {
          await onLost(error);
          [query, etag] = [toQuery({ type, limit: MAX_PAGE }), ""];
        } else if (error instanceof ConnectionFailedError || (error instanceof ApiError && error.status >= 500)) {
          await sleep(Math.max(interval, Math.min(2 ** ++failures, 60)), signal);
        } else throw error;
        continue;
      }
      failures = 0;
      yield* reply.body ?? [];
      const next: Query = reply.nextQuery ?? query;
      if (next.cursor !== query.cursor) await save?.(String(next.cursor));
      [query, etag] = [next, reply.etag];
      if (!reply.body?.length) await sleep(interval, signal);
    }
  }
}

function toQuery(options: object = {}): Query {
  const text = (value: unknown) => (value instanceof Date ? value.toISOString() : value);
  return Object.fromEntries(Object.entries(options).map(([name, value]) => [name, text(value)])) as Query;
}

function warnOfLostEvents(): void {
  console.warn("Events after the cursor are no longer kept, and are lost.");
}
