curl "{{ base_url }}/store/orders?limit=5" -H "Authorization: Bearer $PETSTORE_KEY"
