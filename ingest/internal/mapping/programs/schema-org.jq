# Schema.org JSON-LD: Person to network-person, Organization and its subtypes to network-company.
#
# One object is a node, an array of nodes, or a document with "@graph", in any form of JSON-LD: prefixed names, terms
# of an @context, full IRIs, @value, @set, @list. It is normalized before this program gets it (the module's "input"):
# to an array of people and organizations with plain schema.org names, in which references are replaced by their nodes.
# It includes nodes that pages and articles refer to (mainEntity, author, publisher, list items and the like); these
# have "@nested", and "@date" is the date of the referring node. Nodes of other types and nodes without a name are
# dropped.
#
#   identity  "@id" if it is absolute, else the URL of a profile of the professional network in url or sameAs, else url,
#             else identifier
#   version   dateModified, else dateCreated, else "@date", unchanged; the time of reception only if there is no date
#   username  the slug of a profile of the professional network in "@id", url or sameAs; else the whole identity, which
#             is not a username on the network
#
# Person: names, image, jobTitle and worksFor (headline, current_position, experience), alumniOf (education),
# hasCredential (certifications), knowsLanguage, knowsAbout (skills), address or homeLocation (location), email,
# sameAs (social_accounts, and the usernames of the platforms among them).
# Organization: legalName or name, slogan, description, industry, numberOfEmployees, foundingDate, url, telephone,
# knowsAbout (specialties), address or location (headquarters), logo, image.

module {"input": "json-ld"};

def types: ."@type";
def is_person: types | index("Person") != null;
def is_organization: types | index("Organization") != null;

# text returns a string, the value of {"@value": ...} or the name of a node; the first of several.
def text:
  if type == "array" then [.[] | text | select(. != null)][0]
  elif type == "object" then (."@value" // .name // .value) | text
  elif . == null then null
  else tostring end;
def texts: [many | text | select(. != null)];
def link:
  if type == "array" then [.[] | link | select(. != null)][0]
  elif type == "object" then .contentUrl // .url // ."@id" | link
  elif type == "string" then .
  else null end;
def links: [many | link | select(type == "string")];
def first_capture($re): if . == null then null else ([scan($re)][0] // null) end;
# date returns a date in any form of ISO 8601, or the day, month or year at the start of another text.
def date: text | if . == null then null else iso_date // (first_capture("^[0-9]{4}(?:-[0-9]{2}){0,2}") | iso_date) end;
def has_name: [.name, .legalName, .givenName, .familyName | text | select(. != null) | test("\\S")] | any;

def absolute: select(type == "string" and test("^[A-Za-z][A-Za-z0-9+.-]*:"));
def profiles: ."@id", (.url | links[]), (.sameAs | links[]) | select(type == "string");
def slug_of(f): [profiles | f | select(. != null)][0];
def code: many | if type == "object" then (.value | text) as $v
    | if $v and (.propertyID | type) == "string" then "\(.propertyID):\($v)" else $v end else text end;
def identity:
  [."@id" | absolute][0]
  // [(.url | links[]), (.sameAs | links[]) | select(profile_username("network") != null or company_slug != null)][0]
  // [.url | links[] | absolute][0]
  // [.identifier | code | select(. != null)][0];
def version: (.dateModified // .dateCreated // ."@date" | text) // $received;
def username:
  slug_of(profile_username("network")) // (identity | if . == null or test(":") then . else "identifier:\(.)" end);

def place:
  if type == "array" then .[0] | place
  elif type == "string" then {raw_address: .}
  elif type == "object" and (.address | type) == "object" then .address | place
  elif type == "object" then {
    city: (.addressLocality | text), state: (.addressRegion | text),
    country: (if (.addressCountry | text // "") | test("^[A-Z]{2}$") then null else .addressCountry | text end),
    country_code: (.addressCountry | text | first_capture("^[A-Z]{2}$")),
    raw_address: (if .addressLocality or .addressRegion or .addressCountry then null else text end)
  }
  else null end;

def company: if type == "string" then {name: .} else {
    name: (.name // .legalName | text),
    company_id: (identity? // null),
    network_url: ([profiles] | map(select(company_slug != null))[0])
  } end;

def school: if type == "string" then {school: {name: .}} else {
    school: {name: (.name | text), school_id: (identity? // null)},
    start: (.startDate | date), end: (.endDate | date)
  } end;

# worksFor and alumniOf may wrap their value in a Role or OrganizationRole with separate dates.
def role($property): if type == "object" and ([."@type" // [] | .[]] | any(endswith("Role"))) then
    {role: (.roleName | text), start: (.startDate | date), end: (.endDate | date), of: .[$property]}
  else {role: null, start: null, end: null, of: .} end;

def person:
  (.jobTitle | texts) as $titles
  | [.worksFor | many | role("worksFor") | . as $r | .of | many | {
      title: ($r.role // $titles[0]), start: $r.start, end: $r.end,
      current: ($r.end == null), company: company
    }] as $jobs
  | identity as $id
  | record("network-person"; {
      profile_id: $id,
      last_updated: version,
      username: username,
      first_name: (.givenName | text),
      middle_name: (.additionalName | text),
      last_name: (.familyName | text),
      full_name: ((.name | text)
        // ([.givenName, .additionalName, .familyName] | map(text | select(. != null)) | join(" "))),
      url: (.url | link),
      photo: (.image | link),
      headline: $titles[0],
      summary: (.description | text),
      location: ((.address // .homeLocation) | place),
      current_position: ($jobs | map(select(.current))[0]
        | if . == null then null else {summary: .title, start, company} end),
      experience: $jobs,
      education: [.alumniOf | many | role("alumniOf") | . as $r | .of | many | school
        | {start: $r.start, end: $r.end} + prune],
      certifications: [.hasCredential | many | if type == "string" then {name: .} else {
        name: (.name | text), issuer: (.recognizedBy | text), credential_url: (.url | link),
        credential_id: (.identifier | text), issue_date: ((.dateCreated // .validFrom) | date)
      } end],
      languages: [.knowsLanguage | texts[] | {language: .}],
      skills: [.knowsAbout | texts[] | {skill: .}],
      codehost_username: slug_of(profile_username("codehost")),
      microblog_username: slug_of(profile_username("microblog")),
      social_accounts: (.sameAs | links),
      emails: [.email | texts[] | sub("^mailto:"; "")]
    });

def employees: if type == "object" then .value // .minValue else . end
  | if type == "string" then first_capture("^[0-9]+$") | if . then tonumber else null end
    elif type == "number" then floor else null end;

def organization:
  identity as $id
  | record("network-company"; {
      company_id: $id,
      last_updated: version,
      network_slug: slug_of(company_slug),
      profile: {
        name: ((.name // .legalName) | text),
        tagline: (.slogan | text),
        description: (.description | text),
        industry: (.industry | text),
        employees: [.numberOfEmployees | many | employees][0],
        company_size: (.numberOfEmployees
          | if type == "object" and .minValue != null and .maxValue != null
            then "\(.minValue)-\(.maxValue)" else null end),
        founded: (.foundingDate | date | if . then .[0:4] | tonumber else null end),
        website: (.url | link),
        phone: (.telephone | text),
        specialties: (.knowsAbout | texts)
      },
      headquarters: ((.address // .location) | if type == "array" then .[0] else . end
        | if type == "object" and (.address | type) == "object" then .address else . end
        | if type == "object" then {
            city: (.addressLocality | text), region: (.addressRegion | text), country: (.addressCountry | text),
            postal_code: (.postalCode | text), line1: (.streetAddress | text)
          } elif type == "string" then {line1: .} else null end),
      images: {logo: (.logo | link), cover: (.image | link)}
    });

.[]
| select(has_name and (."@nested" == null or identity != null))
| if is_person then person elif is_organization then organization else empty end
