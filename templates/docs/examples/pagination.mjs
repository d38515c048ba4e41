async function* everyPet(status) {
  let url = `{{ base_url }}/pets?status=${status}&limit=100`;
  while (url) {
    const response = await fetch(url, {
      headers: { Authorization: `Bearer ${process.env.PETSTORE_KEY}` },
    });
    if (!response.ok) throw new Error(await response.text());
    yield* await response.json();
    url = /<([^>]*)>; rel="next"/.exec(response.headers.get("Link") ?? "")?.[1];
  }
}

for await (const pet of everyPet("available")) {
  console.log(pet.id, pet.name);
}
