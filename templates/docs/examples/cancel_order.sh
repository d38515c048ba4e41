# Cancels only the order in order.json.
ORDER=$(grep -os '"id":[0-9]*' order.json | cut -d : -f 2)
if [ -n "$ORDER" ]; then
  curl -i -sS -X DELETE "{{ base_url }}/store/orders/$ORDER" \
    -H "Authorization: Bearer $PETSTORE_KEY"
else
  echo "There is nothing to cancel: place an order first."
fi
