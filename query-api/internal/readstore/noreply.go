package readstore

import (
	"strconv"

	"muster/schemas/readmodel"
)

// noReply is a no-reply address of the code host in a query. No record has it: it identifies its account by user ID or,
// without one, by username. The zero value is no address.
type noReply struct {
	address  string // identity.NormalizeEmail
	userID   int64  // 0: unknown
	username string // identity.NormalizeUsername; empty if the user id is known, because usernames change owners
}

// noReplyOf returns the no-reply address of a query, unless it is erased.
func (s *Store) noReplyOf(q PersonQuery) noReply {
	n := noReply{address: q.Email, userID: q.NoReplyUserID}
	if n.userID == 0 {
		n.username = q.NoReplyUsername
	}
	if q.Email == "" || n.userID == 0 && n.username == "" || s.suppressed.Identifier("codehost email "+q.Email) {
		return noReply{}
	}
	return n
}

// key returns the lookup key of accounts with the address.
func (n noReply) key() lookupKey { return lookupKey{readmodel.LookupCodehostEmail, n.address} }

// rows returns the candidates for the address. found must have the lookup of its username.
func (n noReply) rows(found map[lookupKey][]readmodel.LookupRow) []readmodel.LookupRow {
	if n.userID != 0 {
		id := strconv.FormatInt(n.userID, 10)
		return []readmodel.LookupRow{{TargetKind: readmodel.TargetCodehostPerson, Target: id}}
	}
	return found[lookupKey{readmodel.LookupCodehostUsername, n.username}]
}

// addressOf returns the address if it belongs to the account, else "".
func (n noReply) addressOf(r *readmodel.AnswerRow) string {
	if n.userID != 0 && r.UserID == n.userID || n.username != "" && r.UsernameKey == n.username {
		return n.address
	}
	return ""
}
