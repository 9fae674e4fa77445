#!/bin/sh
# curl in a loop, without a timeout: a new process and a new connection for each call.
# with_curl.sh HOST PORT MODE WORKERS PAUSE; prints what loop.py prints.
url="http://$1:$2/" pause=$5

work() {
    while :; do
        at=$(date +%s.%N)
        told=$(curl --silent --output /dev/null \
            --write-out '%{time_total} %{exitcode} %{errormsg}' "$url")
        took=${told%% *} rest=${told#* } error=""
        code=${rest%% *} what=${rest#* }
        [ "$code" = 0 ] || error="curl-$code"
        printf '{"worker": %d, "at": %s, "took": %s, "error": "%s", "what": "%s"}\n' \
            "$1" "$at" "$took" "$error" "$what"
        sleep "$pause"
    done
}

worker=0
while [ "$worker" -lt "$4" ]; do
    work "$worker" &
    worker=$((worker + 1))
done
wait
