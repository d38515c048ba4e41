# One key for one order: however often curl must send it, one is placed. Over two minutes curl does not wait.
PET=$(curl -sS "{{ base_url }}/pets?status=available&limit=1" \
  -H "Authorization: Bearer $PETSTORE_KEY" | grep -o '"id":[0-9]*' | cut -d : -f 2)
curl -sS --retry 5 --retry-all-errors --retry-max-time 120 "{{ base_url }}/store/orders" \
  -H "Authorization: Bearer $PETSTORE_KEY" -H "Idempotency-Key: $(openssl rand -hex 16)" \
  -H 'Content-Type: application/json' -d "{\"petId\": $PET}" -o order.json
cat order.json
