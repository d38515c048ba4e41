# One key for one pet: however often curl must send this, one is added.
curl -i -sS --retry 5 --retry-all-errors "{{ base_url }}/pets" \
  -H "Authorization: Bearer $PETSTORE_KEY" -H "Idempotency-Key: $(openssl rand -hex 16)" \
  -H 'Content-Type: application/json' -d '{"name": "Biscuit", "categoryId": 1}'
