#!/bin/sh
# Data, cache and user stay: removing the package must not delete records.
set -e

[ ! -d /run/systemd/system ] || systemctl daemon-reload
case "$1" in
purge | 0)
	[ ! -d /var/lib/muster ] || echo "muster: the data in /var/lib/muster was kept; delete it if it is not needed"
	;;
esac
