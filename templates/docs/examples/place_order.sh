# Orders the first pet that is for sale, and saves the order to order.json.
PETS=$(curl -sS "{{ base_url }}/pets?status=available&limit=1" -H "Authorization: Bearer $PETSTORE_KEY")
PET=$(echo "$PETS" | grep -o '"id":[0-9]*' | cut -d : -f 2)
: "${PET:?There is no pet to order. The service said: $PETS}"
curl -sS -D - -o order.json "{{ base_url }}/store/orders" \
  -H "Authorization: Bearer $PETSTORE_KEY" -H "Idempotency-Key: $(openssl rand -hex 16)" \
  -H 'Content-Type: application/json' -d "{\"petId\": $PET}"
cat order.json
