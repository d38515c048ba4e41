# The first pet that is for sale; then the order, which order.json keeps for later.
PET=$(curl -sS "{{ base_url }}/pets?status=available&limit=1" \
  -H "Authorization: Bearer $PETSTORE_KEY" | grep -o '"id":[0-9]*' | cut -d : -f 2)
curl -sS -D - -o order.json "{{ base_url }}/store/orders" \
  -H "Authorization: Bearer $PETSTORE_KEY" -H "Idempotency-Key: $(openssl rand -hex 16)" \
  -H 'Content-Type: application/json' -d "{\"petId\": $PET}"
cat order.json
