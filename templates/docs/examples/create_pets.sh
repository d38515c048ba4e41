# All pets are added, or none.
curl -i -sS "{{ base_url }}/pets/batch" \
  -H "Authorization: Bearer $PETSTORE_KEY" -H "Idempotency-Key: $(openssl rand -hex 16)" \
  -H 'Content-Type: application/json' \
  -d '{"pets": [{"name": "Biscuit", "categoryId": 1}, {"name": "Marble", "categoryId": 2}]}'
