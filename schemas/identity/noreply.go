package identity

import (
	"slices"
	"strconv"
	"strings"
)

// noReplyPrefix precedes a code host's name in the host of its no-reply addresses.
const noReplyPrefix = "users.noreply."

// NoReply parses a no-reply address of the code host: "1234+jane@users.noreply.<host>" or, for older
// accounts, "jane@users.noreply.<host>". <host> is a host of the platform or one of hosts. userID is 0 if the
// address does not contain it.
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
