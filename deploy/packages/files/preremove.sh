#!/bin/sh
# Stops and disables the service when the package is removed, not when it is upgraded.
set -e

case "$1" in
remove | 0)
	[ ! -d /run/systemd/system ] || systemctl --no-reload disable --now muster.service
	;;
esac
