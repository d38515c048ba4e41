# Your account, the key, the remaining minute and day, and a ban. This request costs nothing.
curl -sS "{{ base_url }}/account" -H "Authorization: Bearer $PETSTORE_KEY"
