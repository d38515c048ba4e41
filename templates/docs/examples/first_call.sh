curl "{{ base_url }}/pets?status=available&limit=3" \
  -H "Authorization: Bearer $PETSTORE_KEY"
