// scenarios.py with the TypeScript package, which PETSTORE_CLIENT locates.

const { ApiError, Client, RateLimitError, verifyWebhook } = await import(process.env.PETSTORE_CLIENT);
const WORKERS = 40;
const MAX_ID = "9223372036854775807";

async function describe(call) {
  try {
    return await call();
  } catch (error) {
    if (!(error instanceof ApiError)) return error.name;
    const fields = error.details.map(({ index = "", field }) => `${index}${field}`).sort();
    return [error.status, error.code, fields, Boolean(error.requestId), error.quota !== null];
  }
}

const collect = async (iterator) => {
  const found = [];
  for await (const row of iterator) found.push(row);
  return found;
};

const scenarios = {
  async journey(client) {
    const first = await client.pets.list({ status: "available", limit: 2 });
    const second = await client.pets.list({ status: "available", limit: 2, cursor: first.nextCursor });
    const made = await client.pets.create({ name: "Biscuit", categoryId: first[0].categoryId });
    const batch = await client.pets.createMany([
      { name: "Marble", categoryId: made.categoryId },
      { name: "Rex", categoryId: 1, status: "sold" },
    ]);
    const order = await client.orders.place(made.id);
    await client.orders.cancel(order.id);
    await client.orders.cancel(order.id);
    return {
      ascending: BigInt(first.at(-1).id) < BigInt(second[0].id),
      batch: batch.map(({ name, status }) => [name, status]),
      categories: (await collect(client.categories.iterate())).length,
      pets: (await collect(client.pets.iterate({ categoryId: made.categoryId }))).length,
      order: [order.petId === made.id, order.status, (await client.orders.get(order.id)).status],
      by_ids: (await client.pets.list({ ids: [made.id, 0] })).map(({ name }) => name),
      orders: (await client.orders.list({ status: "cancelled" })).map(({ id }) => id === order.id),
      plan: (await client.account()).account.plan,
      limit: client.quota.limit,
    };
  },

  async errors(client, { url }) {
    const calls = [
      () => new Client("psk_live_wrong", { baseUrl: url }).pets.list(),
      () => client.pets.create({ name: "x".repeat(256), categoryId: MAX_ID }),
      () => client.pets.createMany([{ name: "Rex", categoryId: 1 }, { name: "", categoryId: 1n }]),
      () => client.orders.get(MAX_ID),
      () => client.pets.list({ limit: 101 }),
    ];
    return await Promise.all(calls.map(describe));
  },

  async wait_together(_, { key, url, client }) {
    const counts = {};
    await Promise.all(
      Array.from({ length: WORKERS }, async () => {
        const own = new Client(key, { baseUrl: url, maxWait: client.max_wait ?? 60 });
        const result = String(await describe(async () => (await own.pets.list({ limit: 1 })).length));
        counts[result] = (counts[result] ?? 0) + 1;
      }),
    );
    return counts;
  },

  async ignore_errors(client) {
    await client.pets.list({ limit: 1 });
    const insist = async () => {
      for (let count = 0; count < 20; count++) await describe(() => client.pets.list());
    };
    await Promise.all(Array.from({ length: WORKERS }, insist));
    const { quota, ban } = await client.account();
    const error = await client.categories.list().catch((error) => error);
    if (!(error instanceof RateLimitError)) throw error;
    return { code: error.code, late: (error.retryAt - new Date(quota.day.resetsAt)) / 1000, ban };
  },

  async place(client, { pet }) {
    return (await client.orders.place(pet)).petId === String(pet);
  },

  async time_out(_, { key, url, client }) {
    return await describe(() => new Client(key, { baseUrl: url, ...client }).pets.list());
  },

  async warn(client, { pet }) {
    const messages = [];
    console.warn = (message) => messages.push(message);
    for (let count = 0; count < 2; count++) await client.pets.get(pet);
    return messages;
  },

  async follow(client, { until, type, cursor, since }) {
    const [seen, saved, lost, stop] = [[], [], [], new AbortController()];
    const save = (cursor) => {
      saved.push(cursor);
      if (seen.length >= until) stop.abort();
    };
    const onLost = ({ code }) => lost.push(code);
    const start = since && new Date("2020-01-01");
    const options = { type, cursor, since: start, save, interval: 0.1, signal: stop.signal, onLost };
    for await (const event of client.events.follow(options)) {
      seen.push(Number(event.id));
      console.error(event.data.order?.id ?? event.id);
    }
    return { seen, cursor: saved.at(-1), lost };
  },

  async webhook(_, { headers, body, secrets, now }) {
    return await describe(async () => (await verifyWebhook(headers, body, secrets, { now })).id);
  },
};

const [name, url, key, rest = "{}"] = process.argv.slice(2);
const options = { url, key, ...JSON.parse(rest) };
console.log(JSON.stringify(await scenarios[name](new Client(key, { baseUrl: url }), options)));
