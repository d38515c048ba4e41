async function call(url) {
  const response = await fetch(url, {
    headers: { Authorization: `Bearer ${process.env.PETSTORE_KEY}` },
  });
  if (response.headers.has("Deprecation")) {
    console.warn(`${url} will be removed on ${response.headers.get("Sunset")}`);
  }
  return response;
}

await call("{{ base_url }}/pets/1");
