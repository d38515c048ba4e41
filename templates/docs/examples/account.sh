# Shows your account, the key, the remaining requests and a ban. This request is free.
curl -sS "{{ base_url }}/account" -H "Authorization: Bearer $PETSTORE_KEY"
