# Functions available to every mapping.

# prune removes empty values: null, blank strings, empty arrays and objects.
def prune:
  def has_content: . != null and . != [] and . != {} and (type != "string" or test("\\S"));
  walk(
    if type == "object" then with_entries(select(.value | has_content))
    elif type == "array" then map(select(has_content))
    else . end);

# record(kind; fields) returns one record in the output format of mappings.
def record($kind; fields): {kind: $kind, record: (fields | prune)};

# evidence_version converts a timestamp (any form of ISO 8601) to the version of a record that is evidence, not a
# profile: its Unix seconds become microseconds. So the newest evidence wins among itself, and a crawled record
# always wins over evidence.
def evidence_version:
  def pad($n): tostring | ("0" * ($n - length) // "") + .;
  ([unix_time, 0] | max | [., 3599999999] | min) as $t
  | "1970-01-01T00:" + ($t / 60000000 | floor | pad(2)) + ":" + ($t % 60000000 / 1000000 | floor | pad(2))
    + "." + ($t % 1000000 | pad(6)) + "Z";

# many returns the elements of an array, or the value itself; nothing for null.
def many: if type == "array" then .[] elif . == null then empty else . end;
