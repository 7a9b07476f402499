package broker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// login follows how a client authenticates. It is for what kfake does not do: it tells clients which mechanisms are
// enabled, as those of Python and JavaScript want to know, and takes the tokens of SaslHandshake version 0.
type login struct {
	mechanisms []string    // that are enabled; none: without authentication
	asked      []loginStep // not answered yet, in order
	rounds     int         // how many answers without an error are still to come
	bare       bool        // the client sends tokens without the head of a request
	known      bool
}

type loginStep struct {
	request
	rounds int // of the mechanism that a handshake asks for
}

// ask takes note of a request of a client that is not known yet, and may change it in place. kfake's parser would count
// to four thousand million for a few bytes that say there are as many tags.
func (l *login) ask(r request, raw []byte) error {
	reader, kind := r.body(raw)
	step := loginStep{request: r}
	switch kind.(type) {
	case *kmsg.ApiVersionsRequest:
		if kind.IsFlexible() {
			reader.CompactString() // the client's name
			reader.CompactString() // and version
			if r.version >= 5 {
				reader.CompactNullableString() // the cluster
				reader.Int32()                 // and the broker that it takes this one for
			}
			skipTags(&reader)
		}
	case *kmsg.SASLHandshakeRequest:
		at := len(raw) - len(reader.Src) + 2 // after the length
		mechanism := reader.String()
		step.rounds = 2 // SCRAM
		if mechanism == "PLAIN" {
			step.rounds = 1
		}
		if reader.Ok() && mechanism != "" && !slices.Contains(l.mechanisms, mechanism) {
			raw[at] = '?' // kfake would take it, although it has no user of it
		}
		if r.version == 0 {
			raw[7] = 1 // kfake does not answer version 0, which differs only in what comes next
		}
		l.asked = append(l.asked, step)
	case *kmsg.SASLAuthenticateRequest:
		var token []byte
		if kind.IsFlexible() {
			token = reader.CompactBytes()
			skipTags(&reader)
		} else {
			token = reader.Bytes()
		}
		// kfake takes a user that it does not know for one whose password is empty.
		if parts := bytes.SplitN(token, []byte{0}, 3); len(parts) == 3 && len(parts[2]) == 0 {
			return errors.New("a login with an empty password")
		}
		l.asked = append(l.asked, step)
	}
	if !reader.Ok() {
		return fmt.Errorf("a request of the kind %s that is cut off, or has too many tags", kmsg.NameForKey(r.key))
	}
	return nil
}

// answered takes note of an answer of kfake's, before the client gets it, and returns what the client gets.
func (l *login) answered(id uint32, answer []byte) ([]byte, error) {
	if l.known || len(l.asked) == 0 || l.asked[0].id != id {
		return answer, nil
	}
	step := l.asked[0]
	l.asked = l.asked[1:]
	at := 8 // after the size and the id
	if step.is(kmsg.SASLAuthenticate) && step.version >= 2 {
		at++ // no tagged fields
	}
	if len(answer) < at+2 {
		return answer, nil
	}
	failed := binary.BigEndian.Uint16(answer[at:]) != 0
	if step.is(kmsg.SASLHandshake) {
		if !failed {
			l.rounds, l.bare = step.rounds, step.version == 0
		}
		return l.handshake(answer)
	}
	bare := l.bare
	if !failed && l.rounds > 0 {
		l.rounds--
		l.known = l.rounds == 0
		l.bare = l.bare && !l.known
	}
	if bare {
		return bareToken(answer)
	}
	return answer, nil
}

// handshake puts the mechanisms that are enabled into the answer to a handshake.
func (l *login) handshake(answer []byte) ([]byte, error) {
	var res kmsg.SASLHandshakeResponse
	if err := res.ReadFrom(answer[8:]); err != nil {
		return nil, fmt.Errorf("kfake's answer: %w", err)
	}
	res.SupportedMechanisms = l.mechanisms
	return sized(res.AppendTo(answer[:8:8])), nil
}

// bareRequest makes a SaslAuthenticate of a token that a client sent without the head of a request, as after
// SaslHandshake version 0.
func bareRequest(token []byte) []byte {
	req := kmsg.SASLAuthenticateRequest{SASLAuthBytes: token}
	head := binary.BigEndian.AppendUint16(make([]byte, 4), uint16(kmsg.SASLAuthenticate))
	head = append(head, 0, 0)       // the version
	head = append(head, 0, 0, 0, 0) // the id: such a client waits for each answer
	head = append(head, 0xff, 0xff) // no client ID
	return sized(req.AppendTo(head))
}

// bareToken is the token in the answer to a bareRequest. An error ends the connection: there is no other way to tell.
func bareToken(answer []byte) ([]byte, error) {
	var res kmsg.SASLAuthenticateResponse
	if err := res.ReadFrom(answer[8:]); err != nil {
		return nil, fmt.Errorf("kfake's answer: %w", err)
	}
	if res.ErrorCode != 0 {
		return nil, errors.New("a login that failed")
	}
	return sized(append(make([]byte, 4), res.SASLAuthBytes...)), nil
}

// sized sets the size of a frame.
func sized(frame []byte) []byte {
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4)) //nolint:gosec // as long as a frame can be
	return frame
}
