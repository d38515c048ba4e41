# The id of the first pet that is for sale; then the order.
PET=$(curl -sS "{{ base_url }}/pets?status=available&limit=1" \
  -H "Authorization: Bearer $PETSTORE_KEY" | grep -o '"id":[0-9]*' | cut -d : -f 2)
curl -i -sS "{{ base_url }}/store/orders" \
  -H "Authorization: Bearer $PETSTORE_KEY" -H "Idempotency-Key: $(openssl rand -hex 16)" \
  -H 'Content-Type: application/json' -d "{\"petId\": $PET}"
