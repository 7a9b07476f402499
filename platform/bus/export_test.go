package bus

import "github.com/ThreeDotsLabs/watermill/message"

// GetMessageEvent returns the event of msg. Its error wraps [ErrNotAnEvent].
func GetMessageEvent(msg *message.Message) (Event, error) {
	return getEvent(metadataCarrier(msg.Metadata), msg.UUID)
}
