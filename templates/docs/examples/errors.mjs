const response = await fetch("{{ base_url }}/pets", {
  method: "POST",
  body: JSON.stringify({ categoryId: "cat" }),
  headers: {
    Authorization: `Bearer ${process.env.PETSTORE_KEY}`,
    "Content-Type": "application/json",
  },
});
if (!response.ok) {
  const error = await response.json();
  console.log(error.status, error.code, error.message);
  for (const detail of error.details ?? []) {
    console.log("-", detail.field, detail.code, detail.message);
  }
  console.log("Help:", /<([^>]*)>; rel="help"/.exec(response.headers.get("Link"))[1]);
  console.log("To report:", response.headers.get("X-Request-Id"));
}
