// Package company compares a caller's description of a company with its record: the website, the domain of an e-mail
// address, the name and the place.
//
// [RegistrableDomain] reduces websites and hosts to the domain under a public suffix (publicsuffix.org).
// [WebsiteDomain] returns the domain that identifies a company: none for public mailbox providers and for sites that
// many companies share (freemail.txt, sharedsites.txt). [NameKey] is the form of a name in lookups, and [NameScore] is
// how well a company with that key fits.
package company
