# A dump of a code host's REST interface: users to codehost-person, repositories to codehost-repo.
#
# One object is a user, a repository, an array of them, or a page of search results ({"items": [...]}).
#
#   codehost-person  for a user or an organization; version: fetched_at if the dump has it, else updated_at
#                    company: mentions ("@name") lose the sign and are separated by commas; other text is unchanged
#   codehost-repo    for a repository, under its owner; version: the later of updated_at and pushed_at
#
# A user in a list response (login and ID only) is not a profile: it is rejected because it has no updated_at.
# Fields of the dump without a counterpart in the record keep their names (html_url becomes url).

# company returns the names in a text that consists only of mentions, or the text.
def company:
  if type != "string" then . else gsub("^\\s+|\\s+$"; "")
    | if test("^@[^\\s@,;/&|+]+(?:[\\s,;/&|+]+@[^\\s@,;/&|+]+)*[\\s,;]*$")
      then [scan("@([^\\s@,;/&|+]+)")[0]] | join(", ") else . end end;

def person: record("codehost-person"; {
    user_id: .id,
    codehost_username: .login,
    type,
    full_name: .name,
    avatar_url,
    url: .html_url,
    bio,
    blog,
    location,
    company: (.company | company),
    hireable,
    emails: [.email // empty],
    microblog_username: .twitter_username,
    followers,
    following,
    public_repos,
    public_gists,
    created_at,
    updated_at,
    last_updated: (.fetched_at // .updated_at)
  });

def repo: record("codehost-repo"; {
    user_id: .owner.id,
    id,
    name,
    full_name,
    description,
    language,
    stargazers_count,
    forks_count,
    topics,
    created_at,
    updated_at: ([.updated_at, .pushed_at] | max),
    url: .html_url,
    homepage,
    fork,
    archived,
    default_branch,
    license: .license.spdx_id
  });

def one:
  if type == "array" then .[] | one
  elif type != "object" then error("is \(type), not a user or a repository")
  elif has("items") then .items | one
  elif has("full_name") and has("owner") then repo
  elif has("login") then person
  else error("is neither a user nor a repository") end;

one
