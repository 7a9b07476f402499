package readmodel

import "muster/schemas/identity"

const (
	mutualNetwork = "SELECT profile_id, username_key, arrayJoin(codehost_username_keys) AS named FROM " +
		"network_people FINAL WHERE NOT deleted"
	mutualCodehost = "SELECT user_id, username_key, arrayJoin(network_username_keys) AS named FROM codehost_people " +
		"FINAL WHERE NOT deleted"
	mutualNames = "\nON n.named = c.username_key AND c.named = n.username_key"
)

// MutualAccountsQuery returns the query for accounts of the other webset that have mutual links with accounts
// of the platform from (network or codehost). Columns: the id on from, the id on the other platform, and its
// normalized username. The parameter ids, Array(String), has the ids on from.
func MutualAccountsQuery(from string) string {
	if from == identity.Network {
		return "SELECT n.profile_id, toString(c.user_id), c.username_key\nFROM (" + mutualNetwork +
			" AND profile_id IN {ids:Array(String)}) AS n\n" +
			"INNER JOIN (" + mutualCodehost + ") AS c" + mutualNames
	}
	return "SELECT toString(c.user_id), n.profile_id, n.username_key\nFROM (" + mutualCodehost +
		" AND toString(user_id) IN {ids:Array(String)}) AS c\n" +
		"INNER JOIN (" + mutualNetwork + ") AS n" + mutualNames
}
