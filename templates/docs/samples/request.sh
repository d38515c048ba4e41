curl -i -X {METHOD} {url} \
  -H "Authorization: Bearer $PETSTORE_KEY" \
  -H {header} \
  -H 'Content-Type: application/json' \
  -d {body} \
