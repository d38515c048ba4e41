# The key ensures that curl places only one order, however often it retries. It waits for two minutes at most.
PETS=$(curl -sS "{{ base_url }}/pets?status=available&limit=1" -H "Authorization: Bearer $PETSTORE_KEY")
PET=$(echo "$PETS" | grep -o '"id":[0-9]*' | cut -d : -f 2)
: "${PET:?There is no pet to order. The service said: $PETS}"
curl -sS --retry 5 --retry-all-errors --retry-max-time 120 "{{ base_url }}/store/orders" \
  -H "Authorization: Bearer $PETSTORE_KEY" -H "Idempotency-Key: $(openssl rand -hex 16)" \
  -H 'Content-Type: application/json' -d "{\"petId\": $PET}" -o order.json
cat order.json
