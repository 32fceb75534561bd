#!/usr/bin/env bash
# Installs what the build and the demo need and a bare Debian lacks: curl, and a C compiler, because
# NVIDIA's bindings are C underneath. Does nothing where it is there already.
set -eu
missing=()
command -v gcc >/dev/null || missing+=(gcc libc6-dev)
command -v git >/dev/null || missing+=(git)
command -v curl >/dev/null || missing+=(curl ca-certificates)
[ ${#missing[@]} -eq 0 ] && exit 0
echo "Installing ${missing[*]} ..." >&2
sudo=; [ "$(id -u)" -eq 0 ] || sudo=sudo
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get update -qq
$sudo apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
