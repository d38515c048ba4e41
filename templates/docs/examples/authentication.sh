# With the key: 200. Without it: 401, and an Error that says why.
curl -i "{{ base_url }}/categories" -H "Authorization: Bearer $PETSTORE_KEY"
curl -i "{{ base_url }}/categories"
