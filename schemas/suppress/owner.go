package suppress

import "fmt"

// OwnerKey is the message key, on event.TopicErasure, of the topic owner's record: [Key.Owner].
const OwnerKey = "owner"

// OwnerRecord returns the owner record, the value under OwnerKey.
func (k *Key) OwnerRecord() []byte { return fmt.Appendf(nil, `{"key":%q}`, k.id) }

// HasOwner reports whether the owner of the topic is known, from its owner record or an entry.
func (s *Set) HasOwner() bool { return s.owner.Load() != nil || s.Len() > 0 }

// CheckOwner returns [ErrOtherKey] if the topic has no entries but is owned by another key. Lookups are still
// complete then, but entries must not be added. It returns nil for a nil set.
func (s *Set) CheckOwner() error {
	if s == nil || s.Len() > 0 {
		return nil
	}
	if id := s.owner.Load(); id != nil && *id != s.key.id {
		return ErrOtherKey
	}
	return nil
}
