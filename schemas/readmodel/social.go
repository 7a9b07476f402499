package readmodel

import (
	"muster/schemas/identity"
	"muster/schemas/record"
)

// microblogPerson adds the rows of a microblog-person.
func (r *Renderer) microblogPerson(b *Batch, rec *record.Record, p *record.MicroblogPerson, at Position) {
	t := &b.microblogPeople
	t.head.add(rec, at)
	t.userHash = append(t.userHash, MicroblogHash(p.UserID))
	t.userID = append(t.userID, p.UserID)
	t.lastUpdated = append(t.lastUpdated, p.LastUpdated)
	// Of a withdrawn record decoding leaves identity and version alone.
	usernameKey := identity.UsernameKey(p.Username)
	t.username = append(t.username, p.Username)
	t.usernameKey = append(t.usernameKey, usernameKey)
	t.name = append(t.name, p.Name)
	t.bio = append(t.bio, p.Bio)
	t.location = append(t.location, p.Location)
	t.website = append(t.website, p.Website)
	t.avatarURL = append(t.avatarURL, p.AvatarURL)
	t.followers = append(t.followers, p.Followers)
	t.following = append(t.following, p.Following)
	t.createdAt = append(t.createdAt, string(p.CreatedAt))
	t.accountType = append(t.accountType, p.AccountType)
	if !rec.Deleted {
		l := b.lookupsOf(rec, TargetMicroblogPerson, p.UserID, at)
		l.add(LookupMicroblogUsername, usernameKey)
	}
}

// accountLink adds the rows of an account-link: one of its own and a lookup
// from each side. A withdrawn link still names its accounts, so its lookups
// are withdrawn with it.
func (r *Renderer) accountLink(b *Batch, rec *record.Record, p *record.AccountLink, at Position) {
	aKey, bKey := identity.UsernameKey(p.A.Username), identity.UsernameKey(p.B.Username)
	confidence := float32(1)
	if p.Confidence != nil {
		confidence = float32(*p.Confidence)
	}
	l := b.lookupsOf(rec, TargetAccount, p.B.Platform+":"+bKey, at)
	l.source, l.confidence = p.Source, confidence
	l.add(LookupLink(p.A.Platform), aKey)
	l.target = p.A.Platform + ":" + aKey
	l.add(LookupLink(p.B.Platform), bKey)

	t := &b.accountLinks
	t.head.add(rec, at)
	t.linkHash = append(t.linkHash, LinkHash(rec.Key))
	t.linkID = append(t.linkID, rec.Key)
	t.aPlatform = append(t.aPlatform, p.A.Platform)
	t.aUsername = append(t.aUsername, p.A.Username)
	t.aKey = append(t.aKey, aKey)
	t.bPlatform = append(t.bPlatform, p.B.Platform)
	t.bUsername = append(t.bUsername, p.B.Username)
	t.bKey = append(t.bKey, bKey)
	t.source = append(t.source, p.Source)
	t.confidence = append(t.confidence, confidence)
	t.observedAt = append(t.observedAt, p.ObservedAt)
}
