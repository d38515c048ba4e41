# Sends one request after the other. After 429 and 503 curl waits as long as Retry-After says. If that is over two
# minutes, it gives up at once, and shows the Error, which says when to retry.
curl -sS --retry 5 --retry-max-time 120 "{{ base_url }}/pets?limit=3" \
  -H "Authorization: Bearer $PETSTORE_KEY"
