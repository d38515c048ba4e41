require "net/http"
require "securerandom" # For the Idempotency-Key.

uri = URI({url})
request = Net::HTTP::{Method}.new(uri)
request["Authorization"] = "Bearer #{ENV.fetch("PETSTORE_KEY")}"
request["Content-Type"] = "application/json"
request["Idempotency-Key"] = SecureRandom.uuid
request[{name}] = {value}
request.body = {body}
response = Net::HTTP.start(uri.host, uri.port, use_ssl: uri.scheme == "https") { |http| http.request(request) }
puts "#{response.code} #{response.body}"
