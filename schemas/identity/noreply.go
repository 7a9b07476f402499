package identity

import (
	"slices"
	"strconv"
	"strings"
)

// noReplyPrefix stands before a code host's own name in the host of the addresses
// that it gives to accounts which keep theirs to themselves.
const noReplyPrefix = "users.noreply."

// NoReply reads a no-reply address of the code host, "1234+jane@users.noreply.<host>"
// or, as older accounts have it, "jane@users.noreply.<host>". <host> is one of the
// platform's or of those given beside them. userID is 0 when the address does not
// reveal it.
func (p *Platforms) NoReply(address string, hosts ...string) (userID int64, username string, ok bool) {
	local, host, found := strings.Cut(strings.TrimSpace(address), "@")
	if !found {
		return 0, "", false
	}
	host, found = strings.CutPrefix(strings.ToLower(host), noReplyPrefix)
	if !found {
		return 0, "", false
	}
	if platform := p.find(host); (platform == nil || platform.Name != Codehost) && !slices.Contains(hosts, host) {
		return 0, "", false
	}
	if id, name, both := strings.Cut(local, "+"); both {
		n, err := strconv.ParseInt(id, 10, 64)
		if err != nil || n <= 0 {
			return 0, "", false
		}
		userID, local = n, name
	}
	username, ok = cleanUsername(local)
	if !ok || strings.Contains(username, "+") {
		return 0, "", false
	}
	return userID, username, true
}
