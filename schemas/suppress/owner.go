package suppress

import "fmt"

// OwnerKey is the key of the message of event.TopicErasure that says whose it is: [Key.Owner].
const OwnerKey = "owner"

// Owner is the value under OwnerKey that says that the topic is of who has the key.
func (k *Key) Owner() []byte { return fmt.Appendf(nil, `{"key":%q}`, k.id) }

// Claimed reports whether it is known whose the topic is: by its owner or an entry.
func (s *Set) Claimed() bool { return s.owner.Load() != nil || s.Len() > 0 }

// Ours is [ErrOtherKey] when the topic, which has no entry yet, is of the owner of another key. Nobody is missed then;
// but who would add an entry is to ask. A nil set is ours.
func (s *Set) Ours() error {
	if s == nil || s.Len() > 0 {
		return nil
	}
	if id := s.owner.Load(); id != nil && *id != s.key.id {
		return ErrOtherKey
	}
	return nil
}
