package suppress

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"muster/schemas/identity"
	"muster/schemas/record"
)

// Record reports whether a record is suppressed, and the hash of the matching entry.
func (s *Set) Record(r *record.Record) (Hash, bool) {
	if !s.active() {
		return Hash{}, false
	}
	a := s.lookUpRecord(0)
	a.record(r)
	return a.finish()
}

// record looks up the identifiers of a record. Types that were never suppressed are not even normalized.
func (a *batchLookup) record(r *record.Record) {
	switch b := r.Body.(type) {
	case *record.NetworkPerson:
		a.webset = bitNetwork
		a.id(ProfileID, b.ProfileID)
		a.username(NetworkUsername, b.Username)
		a.emails(b.Emails)
		a.email(b.PersonalEmail)
		a.more(r)
	case *record.CodehostPerson:
		a.webset = bitCodehost
		a.number(UserID, b.UserID)
		a.username(CodehostUsername, b.CodehostUsername)
		a.emails(b.Emails)
		a.email(b.PersonalEmail)
		a.email(b.SchoolEmail)
		a.emails(b.AdditionalEmails)
		a.more(r)
	case *record.MicroblogPerson:
		a.id(MicroblogUserID, b.UserID)
		a.username(MicroblogUsername, b.Username)
		a.more(r)
	case *record.CodehostRepo:
		a.webset = bitCodehost
		a.number(UserID, b.UserID)
	case *record.CodehostList:
		a.webset = bitCodehost
		a.number(UserID, b.UserID)
	case *record.CodehostCommit:
		a.webset = bitCodehost
		a.number(UserID, b.UserID)
		a.email(b.AuthorEmail)
	case *record.AccountLink:
		for _, of := range [...]record.Account{b.A, b.B} {
			if t, ok := typesOf(of.Platform); ok {
				a.webset = t.webset
				a.account(t, identity.NormalizeUsername(of.Username))
			}
		}
	}
}

// account looks up a username for statements about an account.
func (a *batchLookup) account(t platformTypes, username string) {
	a.standard(t.username, username)
	a.standard(t.account, username)
}

// id looks up an id as given in a record. Requests contain ids without surrounding white space.
func (a *batchLookup) id(t Type, id string) { a.standard(t, strings.TrimSpace(id)) }

func (a *batchLookup) username(t Type, username string) {
	if a.set.ofTypes(t.bit()) {
		a.standard(t, identity.NormalizeUsername(username))
	}
}

func (a *batchLookup) emails(list []string) {
	if len(list) > 0 && a.set.ofTypes(Email.bit()) {
		for _, e := range list {
			a.email(e)
		}
	}
}

// email looks up an address, unless it repeats the previous one.
func (a *batchLookup) email(address string) {
	if address == "" || address == a.raw || !a.set.ofTypes(Email.bit()) {
		return
	}
	a.raw = address
	if key, err := identity.NormalizeEmail(address); err == nil {
		a.emailKey(key)
	}
}

// emailKey looks up a normalized address, in every form of its domain.
func (a *batchLookup) emailKey(key string) {
	a.standard(Email, key)
	for _, form := range identity.EmailForms(key) {
		a.standard(Email, form)
	}
}

func (a *batchLookup) phones(numbers []string) {
	for _, n := range numbers {
		for _, form := range PhoneForms(n) {
			a.standard(Phone, form)
		}
	}
}

// more looks up identifiers in the unmapped fields of a person's record.
func (a *batchLookup) more(r *record.Record) {
	wanted := contactsWanted{emails: a.set.ofTypes(Email.bit()), phones: a.set.ofTypes(Phone.bit())}
	if wanted != (contactsWanted{}) {
		unknown(r, func(members jsontext.Value, depth int) {
			if wanted.mayBeIn(members) {
				c := wanted.read(members, depth)
				a.emails(c.Emails)
				a.phones(c.Phones)
			}
		})
	}
	if a.set.HasDrop() && mayBeListed(r) {
		for _, v := range DropValues(r.JSON) {
			a.sum(v.Type, v.Sum)
		}
	}
}
