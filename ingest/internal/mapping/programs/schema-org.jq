# Schema.org JSON-LD: Person to network-person, Organization and its kinds to network-company.
#
# One object is a node, a list of nodes, or a document with "@graph", whose nodes may name each other by "@id".
# Nodes of other types are passed over.
#
#   identity  "@id" unless it means something in its document only ("#me", "_:b0"), else identifier, else url
#   version   dateModified, else dateCreated, else the time of reception
#   username  the slug of a profile of the professional network in "@id", url or sameAs; else alternateName,
#             else identifier, else the last part of the identity
#
# Person: names, image, jobTitle and worksFor (headline, current_position, experience), alumniOf (education),
# hasCredential (certifications), knowsLanguage, knowsAbout (skills), address or homeLocation (location), email,
# sameAs (social_accounts, and the usernames of the platforms among them).
# Organization: legalName or name, slogan, description, industry, numberOfEmployees, foundingDate, url, telephone,
# knowsAbout (specialties), address or location (headquarters), logo, image.

def local: tostring | sub("^.*[/#:]"; "");
def types: [."@type" | many | local];
def is_person: types | index("Person") != null;
def is_organization: types | any(IN("Organization", "Corporation", "LocalBusiness", "NGO", "OnlineBusiness", "OnlineStore",
  "EducationalOrganization", "CollegeOrUniversity", "School", "GovernmentOrganization", "NewsMediaOrganization",
  "MedicalOrganization", "ResearchOrganization", "PerformingGroup", "SportsOrganization", "Airline", "Consortium",
  "FundingScheme", "LibrarySystem", "Project", "WorkersUnion", "PoliticalParty", "ProfessionalService", "Store"));

# text of a string, of {"@value": ...} or of a node's name; the first of several.
def text:
  if type == "array" then [.[] | text | select(. != null)][0]
  elif type == "object" then (."@value" // .name // .value) | text
  elif . == null then null
  else tostring end;
def texts: [many | text | select(. != null)];
def link:
  if type == "array" then [.[] | link | select(. != null)][0]
  elif type == "object" then .contentUrl // .url // ."@id" | link
  else . end;
def links: [many | link | select(type == "string")];
def date: text | if . == null then null else (capture("^(?<d>[0-9]{4}(-[0-9]{2}(-[0-9]{2}(T[0-9:.]+(Z|[+-][0-9]{2}:[0-9]{2})?)?)?)?)").d // null) end;
def first_capture($re): if . == null then null else ([scan($re)][0] // null) end;
def absolute: select(type == "string" and (test("^(#|_:)") | not));
def identity: [."@id" | absolute][0] // (.identifier | text) // (.url | link);
def version: (.dateModified | date) // (.dateCreated | date) // $received;
def slug_of(f): [(."@id", (.url | links[]), (.sameAs | links[])) | select(type == "string") | f | select(. != null)][0];

# deref follows a mere reference to a node of the document.
def deref($nodes): if type == "object" and keys == ["@id"] then $nodes[."@id"] // . else . end;

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

def company($nodes): deref($nodes) | if type == "string" then {name: .} else {
    name: (.name // .legalName | text),
    company_id: (identity? // null),
    network_url: ([(.url | links[]), (.sameAs | links[])] | map(select(company_slug != null))[0])
  } end;

def school($nodes): deref($nodes) | if type == "string" then {school: {name: .}} else {
    school: {name: (.name | text), school_id: (identity? // null)},
    start: (.startDate | date), end: (.endDate | date)
  } end;

# worksFor and alumniOf may wrap what they name in a Role or OrganizationRole with dates of its own.
def role($property): if type == "object" and (types | any(endswith("Role"))) then
    {role: (.roleName | text), start: (.startDate | date), end: (.endDate | date), of: .[$property]}
  else {role: null, start: null, end: null, of: .} end;

def person($nodes):
  (.jobTitle | texts) as $titles
  | [.worksFor | many | role("worksFor") | . as $r | .of | many | {
      title: ($r.role // $titles[0]), start: $r.start, end: $r.end,
      current: ($r.end == null), company: company($nodes)
    }] as $jobs
  | identity as $id
  | record("network-person"; {
      profile_id: $id,
      last_updated: version,
      username: (slug_of(profile_username("network")) // (.alternateName | text) // (.identifier | text) // ($id // "" | sub("[/#]+$"; "") | local)),
      first_name: (.givenName | text),
      middle_name: (.additionalName | text),
      last_name: (.familyName | text),
      full_name: ((.name | text) // ([.givenName, .additionalName, .familyName] | map(text | select(. != null)) | join(" "))),
      url: (.url | link),
      photo: (.image | link),
      headline: $titles[0],
      summary: (.description | text),
      location: ((.address // .homeLocation) | place),
      current_position: ($jobs | map(select(.current))[0] | if . == null then null else {summary: .title, start, company} end),
      experience: $jobs,
      education: [.alumniOf | many | role("alumniOf") | . as $r | .of | many | school($nodes) | {start: $r.start, end: $r.end} + prune],
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
  | if type == "string" then first_capture("^[0-9]+$") | if . then tonumber else null end elif type == "number" then floor else null end;

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
        employees: (.numberOfEmployees | many | employees),
        company_size: (.numberOfEmployees | if type == "object" and .minValue != null and .maxValue != null then "\(.minValue)-\(.maxValue)" else null end),
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

def all_nodes: if type == "array" then .[] | all_nodes
  elif type == "object" and has("@graph") then ."@graph" | all_nodes
  elif type == "object" then .
  else error("is \(type) where a node is needed") end;

[all_nodes] as $list
| ([$list[] | select(."@id" | type == "string") | {key: ."@id", value: .}] | from_entries) as $nodes
| $list[]
| if is_person then person($nodes) elif is_organization then organization else empty end
