// Sends the key with each request.
const petstore = (path, options = {}) =>
  fetch("{{ base_url }}" + path, {
    ...options,
    headers: { ...options.headers, Authorization: `Bearer ${process.env.PETSTORE_KEY}` },
  });

const response = await petstore("/categories");
if (response.status === 401) {
  throw new Error(`Check the key: ${(await response.json()).message}`);
}
console.log((await response.json()).length, "categories");
