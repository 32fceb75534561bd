#!/usr/bin/env bash
# down.sh ends the cluster in $RUN and removes its files. LOGS=DIR keeps its logs there. It ends the first process of the
# cluster's process namespace, which takes all others with it, and touches nothing else.
set -u
here=$(cd "$(dirname "$0")" && pwd); . "$here/env.sh"
[ -e "$RUN/init.pid" ] || [ -e "$RUN/log/up.log" ] || { echo "No cluster runs in $RUN." >&2; exit 0; }
first=$(cat "$RUN/init.pid" 2>/dev/null)
if [ -n "$first" ] && tr '\0' ' ' < "/proc/$first/cmdline" 2>/dev/null | grep -q inside.sh; then kill -9 "$first"; fi
for _ in $(seq 100); do [ -n "$(members "$CG")" ] || break; sleep 0.1; done
left=$(members "$CG")
[ -z "$left" ] || { echo "These processes of the cluster do not end:" $left >&2; exit 1; }
ungroup "$CG"
if [ -n "${LOGS:-}" ]; then mkdir -p "$LOGS"; cp -r "$RUN/log" "$LOGS/control"; for n in "$RUN"/node-*/log; do [ ! -d "$n" ] || cp -r "$n" "$LOGS/$(basename "$(dirname "$n")")"; done; fi
forget || exit 1
rm -rf "${RUN:?}/bin" "${RUN:?}/images"; rmdir "$RUN" 2>/dev/null || echo "Something else is in $RUN, which stays." >&2
for h in $(hierarchies); do [ ! -d "$h/$CG" ] || { echo "The control group $h/$CG is not empty." >&2; exit 1; }; done
