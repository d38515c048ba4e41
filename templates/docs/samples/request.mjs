const response = await fetch({url}, {
  method: {method},
  headers: {
    Authorization: `Bearer ${process.env.PETSTORE_KEY}`,
    "Content-Type": "application/json",
    {name}: {value},
  },
  body: {body},
});
console.log(response.status, await response.text());
