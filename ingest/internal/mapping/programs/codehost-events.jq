# The hourly public event archive of a code host: push events to codehost-person, codehost-repo, codehost-commit.
#
# One object is one event; events of other types are dropped.
#
#   codehost-person  the account that pushed, and each author whose no-reply address has ID and username
#   codehost-repo    the repository, if the event has its owner's ID: the owner pushed, or is the event's organization
#   codehost-commit  each commit whose author's ID is known: by the no-reply address, or because the address has
#                    the username of the account that pushed
#
# An event is evidence of an account or a repository, not a profile: these two get a version (evidence_version) that
# is older than that of every crawled record. Commits get the time of the event, because the archive has no commit
# times. Events without commits, as in archives since 2025, yield person and repository only. Events of 2011 to 2014
# have their commits in arrays ("shas"); those without an account ID, as since 2012, yield nothing.

select(.type == "PushEvent")
| .created_at as $at
| (.actor | select(type == "object" and .id != null and .login != null)) as $actor
| (.repo | select(type == "object" and (.name | type) == "string") // {id: null, name: ""}) as $repo
| ($repo.name | split("/")) as $name
| ([$actor, .org | select(type == "object" and .id != null and .login != null)
    | select((.login | ascii_downcase) == ($name[0] // "" | ascii_downcase))][0]) as $owner
| [(.payload.commits // [.payload.shas | many | select(type == "array")
      | {sha: .[0], author: {email: .[1], name: .[3]}, message: .[2]}]) | many
    | .author as $author
    | ($author.email | noreply) as $known
    | {
        commit: .,
        account: (
          if $known.user_id then {id: $known.user_id, login: $known.username}
          elif $known and ($known.username | ascii_downcase) == ($actor.login | ascii_downcase) then $actor
          else null end)
      }
    | select(.account)
  ] as $commits
| record("codehost-person"; {
    user_id: $actor.id,
    codehost_username: $actor.login,
    avatar_url: $actor.avatar_url,
    last_updated: ($at | evidence_version)
  }),
  ($commits | unique_by(.account.id)[] | select(.account.id != $actor.id)
    | record("codehost-person"; {
        user_id: .account.id,
        codehost_username: .account.login,
        full_name: .commit.author.name,
        last_updated: ($at | evidence_version)
      })),
  (select($owner and $repo.id) | record("codehost-repo"; {
    user_id: $owner.id,
    id: $repo.id,
    name: $name[1],
    full_name: $repo.name,
    updated_at: ($at | evidence_version)
  })),
  ($commits[] | record("codehost-commit"; {
    user_id: .account.id,
    sha: .commit.sha,
    author_date: $at,
    message: .commit.message,
    author_name: .commit.author.name,
    author_email: .commit.author.email,
    author_login: .account.login,
    repo: {full_name: $repo.name}
  }))
