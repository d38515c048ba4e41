#!/bin/sh
# The steps of docs/deploying.md, "With systemd". Run as root in the machine.
set -eu
secret() { python3 -c 'import secrets; print(secrets.token_urlsafe(48))'; }
manage() {
    systemd-run --quiet --pipe --wait --uid=petstore --same-dir -p EnvironmentFile=/etc/petstore.env \
        "$PWD/.venv/bin/python" manage.py "$@"
}

su postgres -c "psql --quiet" <<'SQL'
CREATE ROLE petstore LOGIN PASSWORD 'petstore';
CREATE DATABASE petstore OWNER petstore;
SQL

useradd --system --shell /usr/sbin/nologin petstore
cd /opt/petstore-*
make .venv/runtime.txt
ln -sfn "$(basename "$PWD")" /opt/petstore
install -m 600 deploy/petstore.env.example /etc/petstore.env
sed -i -e "s|^SECRET_KEY=|&$(secret)|" -e "s|^API_KEY_PEPPERS=|&1:$(secret)|" \
    -e "s|^DATABASE_URL=.*|DATABASE_URL=postgresql://petstore:petstore@127.0.0.1:5432/petstore|" \
    -e "/^PETSTORE_VERSION=/d" -e "/^POSTGRES_PASSWORD=/d" /etc/petstore.env
echo "SERVE_OPTIONS=--workers 3" >> /etc/petstore.env
manage migrate --verbosity 0
manage check --deploy --fail-level WARNING
cp deploy/petstore@.service deploy/petstore-housekeeping.* /etc/systemd/system/
systemctl daemon-reload
systemctl enable --now petstore@8001 petstore@8002 petstore-housekeeping.timer
for port in 8001 8002; do
    curl --silent --fail --retry 60 --retry-delay 1 --retry-all-errors "http://127.0.0.1:$port/readyz"
done

openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=api.example.com \
    -addext subjectAltName=DNS:api.example.com -keyout /root/key.pem -out /root/certificate.pem 2>/dev/null
cat /root/certificate.pem /root/key.pem > /etc/haproxy/certificate.pem
cp deploy/haproxy.cfg /etc/haproxy/
cat >> /etc/default/haproxy <<'SETTINGS'
PETSTORE_CERTIFICATE=/etc/haproxy/certificate.pem
PETSTORE_HTTP_PORT=80
PETSTORE_HTTPS_PORT=443
PETSTORE_A=127.0.0.1:8001
PETSTORE_B=127.0.0.1:8002
SETTINGS
install -D -m 644 deploy/haproxy.service.conf /etc/systemd/system/haproxy.service.d/petstore.conf
systemctl daemon-reload
systemctl restart haproxy
