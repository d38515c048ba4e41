curl -sS -o /dev/null -D - "{{ base_url }}/pets/1" -H "Authorization: Bearer $PETSTORE_KEY" \
  | grep -iE '^(deprecation|sunset|link):'
