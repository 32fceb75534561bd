#!/usr/bin/env bash
# notes.sh VERSION prints the section of a version from a CHANGELOG at its standard
# input; that of what is not released yet, if there is none. It fails if it is empty.
set -eu
exec awk -v want="${1:?notes.sh VERSION}" '
	/^## / { here = $2; sub(/^\[/, "", here); sub(/\]$/, "", here); next }
	{ text[here] = text[here] $0 "\n" }
	END {
		found = (want in text) ? text[want] : text["Unreleased"]
		gsub(/^\n+|\n+$/, "", found)
		if (found == "") { print "CHANGELOG.md says nothing about " want > "/dev/stderr"; exit 1 }
		print found
	}'
