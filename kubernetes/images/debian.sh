#!/usr/bin/env bash
# debian.sh FOLDER unpacks into FOLDER what the image of the daemon takes from Debian:
# the C library that berth-serve is linked to here, and certificates for HTTPS.
set -eu
[ $# = 1 ] || { echo "debian.sh FOLDER" >&2; exit 2; }
[ ! -e "$1/.complete" ] || exit 0
command -v apt-get >/dev/null || { echo "The image of the daemon is made from Debian's packages, and there is no apt-get here. Use the Containerfile instead." >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 1777 "$work" # apt may write it as a user of its own
fetch() { (cd "$work" && apt-get download -qq libc6 ca-certificates); }
fetch 2>/dev/null || { sudo=; [ "$(id -u)" -eq 0 ] || sudo=sudo; $sudo apt-get update -qq; fetch; }
rm -rf "$1"; mkdir -p "$1"
for deb in "$work"/*.deb; do dpkg-deb -x "$deb" "$1"; done
# From Debian 13 on, everything is below usr.
for d in lib lib64; do [ -e "$1/$d" ] || [ ! -d "$1/usr/$d" ] || ln -s "usr/$d" "$1/$d"; done
touch "$1/.complete"
