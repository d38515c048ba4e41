# Clients can add pets, but only staff can remove them.
curl -i -sS "{{ base_url }}/pets" \
  -H "Authorization: Bearer $PETSTORE_KEY" -H "Idempotency-Key: $(openssl rand -hex 16)" \
  -H 'Content-Type: application/json' -d '{"name": "Biscuit", "categoryId": 1}'
