package readmodel

import (
	"muster/schemas/identity"
	"muster/schemas/record"
)

// microblogPerson adds the rows of a microblog-person.
func (r *Renderer) microblogPerson(b *Batch, rec *record.Record, p *record.MicroblogPerson, at Position) {
	t := &b.microblogPeople
	t.common.add(rec, at)
	t.userHash.add(MicroblogHash(p.UserID))
	t.userID.add(p.UserID)
	t.lastUpdated.add(p.LastUpdated)
	// Deleted records are decoded to identity and version only.
	usernameKey := identity.NormalizeUsername(p.Username)
	t.username.add(p.Username)
	t.usernameKey.add(usernameKey)
	t.name.add(p.Name)
	t.bio.add(p.Bio)
	t.location.add(p.Location)
	t.website.add(p.Website)
	t.avatarURL.add(p.AvatarURL)
	t.followers.add(p.Followers)
	t.following.add(p.Following)
	t.createdAt.add(string(p.CreatedAt))
	t.accountType.add(p.AccountType)
	if !rec.Deleted {
		l := b.lookupsOf(rec, TargetMicroblogPerson, p.UserID, at)
		l.add(LookupMicroblogUsername, usernameKey)
		if p.AccountType == "" || p.AccountType == "personal" {
			l.find(identity.Microblog, p.Username, p.Name)
			r.mention(&l, identity.Microblog, []string{p.Website}, p.Bio)
		}
	}
}

// accountLink adds the rows of an account link: its own and one lookup per side. A deleted link still names
// its accounts, so its lookups are deleted with it.
func (r *Renderer) accountLink(b *Batch, rec *record.Record, p *record.AccountLink, at Position) {
	aKey, bKey := identity.NormalizeUsername(p.A.Username), identity.NormalizeUsername(p.B.Username)
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
	t.common.add(rec, at)
	t.linkHash.add(LinkHash(rec.Key))
	t.linkID.add(rec.Key)
	t.aPlatform.add(p.A.Platform)
	t.aUsername.add(p.A.Username)
	t.aKey.add(aKey)
	t.bPlatform.add(p.B.Platform)
	t.bUsername.add(p.B.Username)
	t.bKey.add(bKey)
	t.source.add(p.Source)
	t.confidence.add(confidence)
	t.observedAt.add(p.ObservedAt)
}
