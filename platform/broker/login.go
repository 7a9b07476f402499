package broker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// login tracks the SASL authentication of a connection and adds what kfake lacks: it returns the list of enabled
// mechanisms, which Python and JavaScript clients require, and accepts the tokens of SaslHandshake version 0.
type login struct {
	mechanisms    []string    // enabled mechanisms; none: no authentication
	pending       []loginStep // unanswered requests, in order
	rounds        int         // successful responses still required
	rawTokens     bool        // the client sends tokens without a request header
	authenticated bool
}

// loginStep is a request of a login.
type loginStep struct {
	request
	rounds int // number of rounds of the requested mechanism
}

// onRequest records a request of an unauthenticated client and may change it in place. It rejects long tag lists:
// kfake's parser would loop up to 2^32 times over a tag count of a few bytes.
func (l *login) onRequest(r request, raw []byte) error {
	reader, kind := r.body(raw)
	step := loginStep{request: r}
	switch kind.(type) {
	case *kmsg.ApiVersionsRequest:
		if kind.IsFlexible() {
			reader.CompactString() // client name
			reader.CompactString() // client version
			if r.version >= 5 {
				reader.CompactNullableString() // cluster ID
				reader.Int32()                 // node ID
			}
			skipTags(&reader)
		}
	case *kmsg.SASLHandshakeRequest:
		at := len(raw) - len(reader.Src) + 2 // the mechanism follows its length
		mechanism := reader.String()
		step.rounds = 2 // SCRAM
		if mechanism == "PLAIN" {
			step.rounds = 1
		}
		// kfake would accept a mechanism without users.
		if reader.Ok() && mechanism != "" && !slices.Contains(l.mechanisms, mechanism) {
			raw[at] = '?'
		}
		// kfake does not support version 0, which differs only in the tokens that follow.
		if r.version == 0 {
			raw[7] = 1
		}
		l.pending = append(l.pending, step)
	case *kmsg.SASLAuthenticateRequest:
		var token []byte
		if kind.IsFlexible() {
			token = reader.CompactBytes()
			skipTags(&reader)
		} else {
			token = reader.Bytes()
		}
		// kfake treats an unknown user as one with an empty password.
		if parts := bytes.SplitN(token, []byte{0}, 3); len(parts) == 3 && len(parts[2]) == 0 {
			return errors.New("login with an empty password")
		}
		l.pending = append(l.pending, step)
	}
	if !reader.Ok() {
		return fmt.Errorf("%s request is truncated or has too many tags", kmsg.NameForKey(r.key))
	}
	return nil
}

// onResponse records a response of kfake and returns the response for the client.
func (l *login) onResponse(id uint32, response []byte) ([]byte, error) {
	if l.authenticated || len(l.pending) == 0 || l.pending[0].id != id {
		return response, nil
	}
	step := l.pending[0]
	l.pending = l.pending[1:]
	at := 8 // after size and correlation ID
	if step.is(kmsg.SASLAuthenticate) && step.version >= 2 {
		at++ // empty tagged fields
	}
	if len(response) < at+2 {
		return response, nil
	}
	failed := binary.BigEndian.Uint16(response[at:]) != 0
	if step.is(kmsg.SASLHandshake) {
		if !failed {
			l.rounds, l.rawTokens = step.rounds, step.version == 0
		}
		return l.addMechanisms(response)
	}
	rawTokens := l.rawTokens
	if !failed && l.rounds > 0 {
		l.rounds--
		l.authenticated = l.rounds == 0
		l.rawTokens = l.rawTokens && !l.authenticated
	}
	if rawTokens {
		return unwrapToken(response)
	}
	return response, nil
}

// addMechanisms returns a handshake response with the enabled mechanisms.
func (l *login) addMechanisms(response []byte) ([]byte, error) {
	var res kmsg.SASLHandshakeResponse
	if err := res.ReadFrom(response[8:]); err != nil {
		return nil, fmt.Errorf("parse the response of kfake: %w", err)
	}
	res.SupportedMechanisms = l.mechanisms
	return setFrameSize(res.AppendTo(response[:8:8])), nil
}

// wrapToken returns a SaslAuthenticate request for a token without a request header, as clients send it after
// SaslHandshake version 0.
func wrapToken(token []byte) []byte {
	req := kmsg.SASLAuthenticateRequest{SASLAuthBytes: token}
	head := binary.BigEndian.AppendUint16(make([]byte, 4), uint16(kmsg.SASLAuthenticate))
	head = append(head, 0, 0)       // version
	head = append(head, 0, 0, 0, 0) // correlation ID: such a client waits for each response
	head = append(head, 0xff, 0xff) // no client ID
	return setFrameSize(req.AppendTo(head))
}

// unwrapToken returns the token of a SaslAuthenticate response as a frame. It returns an error if the login failed: a
// bare token cannot carry one, so the connection is closed.
func unwrapToken(response []byte) ([]byte, error) {
	var res kmsg.SASLAuthenticateResponse
	if err := res.ReadFrom(response[8:]); err != nil {
		return nil, fmt.Errorf("parse the response of kfake: %w", err)
	}
	if res.ErrorCode != 0 {
		return nil, errors.New("login failed")
	}
	return setFrameSize(append(make([]byte, 4), res.SASLAuthBytes...)), nil
}

// setFrameSize writes the size of a frame into its first four bytes.
func setFrameSize(frame []byte) []byte {
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4)) //nolint:gosec // frames are below 2 GiB
	return frame
}
