package erasure

import (
	"muster/platform/service"
	"muster/schemas/event"
)

// DisclosureCipher returns the cipher of the disclosures in the ledger.
func DisclosureCipher(secret *service.RootSecret) (*event.DisclosureCipher, error) {
	key, err := secret.Key(event.DisclosureKeyName, event.DisclosureKeySize)
	if err != nil {
		return nil, err
	}
	return event.NewDisclosureCipher(key)
}
