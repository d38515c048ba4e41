# Shows all events since the last run, page by page. The file events.next has the URL of the next page, and the ETag
# of the previous one. If there are no new events, the response is a 304 without a body, but with a new URL.
[ -s events.next ] || echo "{{ base_url }}/events?limit=100" > events.next
page=
until [ "$page" = "[]" ]; do
  page=$(curl -sS --fail-with-body -D headers.txt "$(sed -n 1p events.next)" \
    -H "If-None-Match: $(sed -n 2p events.next)" -H "Authorization: Bearer $PETSTORE_KEY") || { echo "$page"; exit 1; }
  page=${page:-[]}
  echo "$page"
  grep -i '^link:' headers.txt | grep -o '<[^>]*>; rel="next"' | cut -d '>' -f 1 | tr -d '<' > events.new
  [ -s events.new ] || exit 1
  grep -i '^etag:' headers.txt | grep -o '"[^"]*"' >> events.new
  mv events.new events.next
done
