# Shows all events since the last time, page by page. The file events.next has the next page's address.
[ -s events.next ] || echo "{{ base_url }}/events?limit=100" > events.next
page=
while [ "$page" != "[]" ]; do
  page=$(curl -sS --fail-with-body -D headers.txt "$(cat events.next)" \
    -H "Authorization: Bearer $PETSTORE_KEY") || { echo "$page"; exit 1; }
  echo "$page"
  grep -i '^link:' headers.txt | grep -o '<[^>]*>; rel="next"' | cut -d '>' -f 1 | tr -d '<' > events.new
  [ -s events.new ] && mv events.new events.next || exit 1
done
