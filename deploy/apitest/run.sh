#!/usr/bin/env bash
# Holds the API description against the last release and the running server. Called by make test-api.
# oasdiff stays at the newest version whose modules the module proxy has (later ones need github.com/pb33f/go-yaml).
# accepted.txt names what only looks like a breaking change: bounds that the server of the last release had, and its
# description had not; and the other shape of responses to calls with dry_run, which the last release did not have.
# EXAMPLES is how many requests are drawn for each operation and phase.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=deploy/apitest
work=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || { kill "$pid" && wait "$pid" || true; }; rm -rf "$work"' EXIT

echo "-- breaking changes since the last release"
go run github.com/oasdiff/oasdiff@v1.20.1 breaking --fail-on ERR --err-ignore "$here/accepted.txt" "$here/released.yaml" query-api/openapi.yaml

echo "-- schemathesis"
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt"
bin/muster up --data-dir "$work/data" --no-sample --api-addr 127.0.0.1:0 --ingest-addr 127.0.0.1:0 --admin-addr 127.0.0.1:0 \
	--clickhouse-addr 127.0.0.1:0 --kafka-addr 127.0.0.1:0 >"$work/out" 2>"$work/log" &
pid=$!
for _ in $(seq 240); do
	grep -q 'Ctrl-C stops it' "$work/out" && break
	kill -0 "$pid" 2>/dev/null || { tail -20 "$work/log" >&2; exit 1; }
	read -rt 0.5 <> <(:) || true
done
# The people and the company whom the description's examples name, so that the examples are answered.
for file in schemas/sampledata/examples/*.ndjson; do
	bin/muster ingest --data-dir "$work/data" "$(basename "$file" .ndjson)" "$file" >"$work/ingest" 2>&1 || { cat "$work/ingest" >&2; exit 1; }
done
bin/muster status --wait --data-dir "$work/data" >"$work/status" 2>&1 || { cat "$work/status" >&2; exit 1; }
field() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$work/data/standalone.json" "$1"; }
export SCHEMATHESIS_HOOKS="$here/hooks.py"
"$work/venv/bin/schemathesis" --config-file "$here/schemathesis.toml" run "$(field base_url)/v1/openapi.json" \
	-H "Authorization: Bearer $(field api_key)" --max-examples "${EXAMPLES:-10}" --phases examples,coverage,fuzzing --seed "${SEED:-1}"
