#!/bin/sh
# Run in Debian's base system: the packages of every stand-in. No service starts while they are installed.
set -e
printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d
chmod +x /usr/sbin/policy-rc.d
mkdir -p /etc/postgresql-common
echo create_main_cluster=false > /etc/postgresql-common/createcluster.conf
apt-get install -y -qq --no-install-recommends haproxy postgresql prometheus
# As in the official images: names of programs, the user of the proxy, and folders that the servers write to.
ln -s python3 /usr/bin/python
ln -s /usr/lib/postgresql/*/bin/* /usr/local/bin/
usermod --uid 99 haproxy
mkdir -p /prometheus /var/lib/postgresql/data
chown nobody /prometheus
chown postgres /var/lib/postgresql/data
chmod 3777 /run/postgresql
