# A dump of a code host's REST interface: users to codehost-person, repositories to codehost-repo.
#
# One object is a user, a repository, a list of them, or a page of search results ({"items": [...]}).
#
#   codehost-person  of a user or an organization; version: fetched_at if the dump has it, else updated_at
#                    company: "@name" of an account without the sign, several with commas; other texts as they stand
#   codehost-repo    of a repository, under its owner; version: the later of updated_at and pushed_at
#
# A user as lists show it (login and id alone) is no profile: it has no updated_at and is rejected for that.
# Fields of the dump that the record has no name for are kept under their own (html_url of a user becomes url).

# company without the signs of mentions, if it is nothing but mentions.
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
  elif type != "object" then error("is \(type) where a user or a repository is needed")
  elif has("items") then .items | one
  elif has("full_name") and has("owner") then repo
  elif has("login") then person
  else error("is neither a user nor a repository") end;

one
