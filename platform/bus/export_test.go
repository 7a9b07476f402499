package bus

import "github.com/ThreeDotsLabs/watermill/message"

// GetMessageEvent reads the event from msg. The error wraps [ErrNotAnEvent].
func GetMessageEvent(msg *message.Message) (Event, error) {
	return getEvent(metadataCarrier(msg.Metadata), msg.UUID)
}
