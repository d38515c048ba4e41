# The first request gets 200. The second has no key, and gets 401 with an Error.
curl -i "{{ base_url }}/categories" -H "Authorization: Bearer $PETSTORE_KEY"
curl -i "{{ base_url }}/categories"
