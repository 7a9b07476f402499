#!/bin/sh
# Creates the user and the data directory. dpkg passes "configure" and the old version, rpm the number of versions.
set -e

getent group muster >/dev/null || groupadd --system muster
getent passwd muster >/dev/null || useradd --system --gid muster --home-dir /var/lib/muster --no-create-home \
	--shell /usr/sbin/nologin --comment "muster service" muster
install -d -o muster -g muster -m 0700 /var/lib/muster
install -d -o muster -g muster -m 0755 /var/cache/muster
chown root:muster /etc/muster/muster.env
chmod 0640 /etc/muster/muster.env

[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
# A running service continues with the new program. A new one is started by the operator.
if [ "$1" = configure ] && [ -n "$2" ] || [ "$1" -ge 2 ] 2>/dev/null; then
	systemctl try-restart muster.service
fi
