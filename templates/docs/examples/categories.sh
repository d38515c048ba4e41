curl "{{ base_url }}/categories" -H "Authorization: Bearer $PETSTORE_KEY"
