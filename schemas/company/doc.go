// Package company compares what people know of a company: its website, the domain of an e-mail address, its name and
// its place.
//
// [RegistrableDomain] reduces websites and hosts to the domain under a public suffix (publicsuffix.org).
// [WebsiteDomain] says which one identifies a company: not those of free mailboxes, and not pages of sites that many
// companies share (freemail.txt, sharedsites.txt). [NameKey] is the form under which names are looked up, and [NameScore] how well a
// company of that key fits.
package company
