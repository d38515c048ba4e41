# After 429 and 503 curl waits as long as Retry-After says, and gives up if that is over two minutes.
curl -sS --retry 5 --retry-max-time 120 "{{ base_url }}/pets?limit=3" \
  -H "Authorization: Bearer $PETSTORE_KEY"
