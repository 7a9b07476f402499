# What every mapping can use.

# prune leaves out what says nothing: null, blank strings, empty lists and objects.
def prune:
  def said: . != null and . != [] and . != {} and (type != "string" or test("\\S"));
  walk(
    if type == "object" then with_entries(select(.value | said))
    elif type == "array" then map(select(said))
    else . end);

# record(kind; fields) is one record as muster takes it.
def record($kind; fields): {kind: $kind, record: (fields | prune)};

# evidence_version turns a timestamp (any form of ISO 8601) into the version of a record that is evidence and no
# profile: seconds become microseconds after 1970. So among each other the newest wins, and a record that was
# crawled always wins over them.
def evidence_version:
  def pad($n): tostring | ("0" * ($n - length) // "") + .;
  ([unix_time, 0] | max | [., 3599999999] | min) as $t
  | "1970-01-01T00:" + ($t / 60000000 | floor | pad(2)) + ":" + ($t % 60000000 / 1000000 | floor | pad(2))
    + "." + ($t % 1000000 | pad(6)) + "Z";

# a list of whatever is one thing or a list of them.
def many: if type == "array" then .[] elif . == null then empty else . end;
