package post

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"code.dny.dev/ssrf"

	"muster/platform/publicnet"
)

// ErrForbiddenAddress is returned if the receiver's name resolves to a forbidden address. No
// connection was made.
var ErrForbiddenAddress = errors.New("address is private, reserved or not allowed")

// guard checks addresses when they are dialed.
type guard struct {
	public  *ssrf.Guardian
	allowed []netip.Prefix
}

func newGuard(allowed []netip.Prefix) *guard {
	g := &guard{allowed: make([]netip.Prefix, len(allowed))}
	for i, p := range allowed {
		g.allowed[i] = p.Masked()
	}
	// With TLS every port is safe: no other protocol understands it.
	g.public = publicnet.NewGuardian()
	return g
}

func (g *guard) isAllowed(address string) bool {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return false
	}
	for _, p := range g.allowed {
		// A prefix does not contain zoned or IPv4-mapped IPv6 addresses.
		if p.Contains(at.Addr()) {
			return true
		}
	}
	return false
}

// control returns the control function of a dialer. It checks the resolved address immediately
// before connecting, which prevents DNS rebinding.
func (g *guard) control(allowedOnly bool) func(network, address string, c syscall.RawConn) error {
	return func(network, address string, c syscall.RawConn) error {
		if g.isAllowed(address) {
			return nil
		}
		if allowedOnly {
			return fmt.Errorf("%w: plain HTTP requires an allowed address", ErrForbiddenAddress)
		}
		if err := g.public.Safe(network, address, c); err != nil {
			return fmt.Errorf("%w: %w", ErrForbiddenAddress, err)
		}
		return nil
	}
}

// dial returns the dial function of a transport.
func (g *guard) dial(allowedOnly bool,
	resolver *net.Resolver) func(ctx context.Context, network, address string) (net.Conn, error) {
	d := &net.Dialer{
		Timeout: dialTimeout, KeepAlive: 30 * time.Second, Resolver: resolver,
		Control: g.control(allowedOnly),
	}
	return d.DialContext
}
