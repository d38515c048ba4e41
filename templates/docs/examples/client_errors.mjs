import { ApiError, Client } from "petstore-client";

const client = new Client(process.env.PETSTORE_KEY, { baseUrl: "{{ base_url }}" });
try {
  await client.pets.create({ name: "", categoryId: 1 });
} catch (error) {
  if (!(error instanceof ApiError)) throw error;
  console.log(error.status, error.code, error.text);
  for (const detail of error.details) {
    console.log("-", detail.field, detail.code, detail.message);
  }
  console.log("To report:", error.requestId);
}
