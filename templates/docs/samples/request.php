<?php
$request = curl_init({url});
curl_setopt_array($request, [
    CURLOPT_CUSTOMREQUEST => {method},
    CURLOPT_HTTPHEADER => [
        'Authorization: Bearer ' . getenv('PETSTORE_KEY'),
        'Content-Type: application/json',
        'Idempotency-Key: ' . bin2hex(random_bytes(16)),
        {header},
    ],
    CURLOPT_POSTFIELDS => {body},
    CURLOPT_RETURNTRANSFER => true,
]);
$body = curl_exec($request);
if ($body === false) {
    throw new RuntimeException(curl_error($request));
}
echo curl_getinfo($request, CURLINFO_RESPONSE_CODE), " $body\n";
