# Prints each page on a line.
url="{{ base_url }}/pets?status=available&limit=100"
while [ -n "$url" ]; do
  curl -sS --fail-with-body -w '\n' -D headers.txt "$url" -H "Authorization: Bearer $PETSTORE_KEY" || break
  url=$(grep -i '^link:' headers.txt | grep -o '<[^>]*>; rel="next"' | cut -d '>' -f 1 | tr -d '<')
done
