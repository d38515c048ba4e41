# The id of your first order that is still placed; then its cancellation.
ORDER=$(curl -sS "{{ base_url }}/store/orders?status=placed&limit=1" \
  -H "Authorization: Bearer $PETSTORE_KEY" | grep -o '"id":[0-9]*' | cut -d : -f 2)
curl -i -sS -X DELETE "{{ base_url }}/store/orders/$ORDER" \
  -H "Authorization: Bearer $PETSTORE_KEY"
