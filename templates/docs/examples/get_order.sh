# Gets the id of your first order, then the order.
ORDER=$(curl -sS "{{ base_url }}/store/orders?limit=1" \
  -H "Authorization: Bearer $PETSTORE_KEY" | grep -o '"id":[0-9]*' | cut -d : -f 2)
curl "{{ base_url }}/store/orders/$ORDER" -H "Authorization: Bearer $PETSTORE_KEY"
