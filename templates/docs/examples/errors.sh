# A body with two errors. The Link header has the URL of the section of this page that explains the code.
curl -i "{{ base_url }}/pets" -H "Authorization: Bearer $PETSTORE_KEY" \
  -H 'Content-Type: application/json' -d '{"categoryId": "cat"}'
