# Shows the quota headers of a response.
curl -sS -o /dev/null -D - "{{ base_url }}/pets?limit=1" \
  -H "Authorization: Bearer $PETSTORE_KEY" | grep -i ratelimit
