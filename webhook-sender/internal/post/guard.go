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

// ErrForbiddenAddress says that the receiver's name led to an address that must
// not be called. Nothing was sent and no connection was made.
var ErrForbiddenAddress = errors.New("the address is private, reserved or not allowed")

// guard decides about addresses when they are dialled.
type guard struct {
	public  *ssrf.Guardian
	allowed []netip.Prefix
}

func newGuard(allowed []netip.Prefix) *guard {
	g := &guard{allowed: make([]netip.Prefix, len(allowed))}
	for i, p := range allowed {
		g.allowed[i] = p.Masked()
	}
	// TLS makes any port as safe as another: no other protocol understands it.
	g.public = publicnet.NewGuardian()
	return g
}

func (g *guard) isAllowed(address string) bool {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return false
	}
	for _, p := range g.allowed {
		// A zone or an IPv4 address in an IPv6 one is no member of any prefix.
		if p.Contains(at.Addr()) {
			return true
		}
	}
	return false
}

// control returns the check of a dialer. It sees the address after resolving,
// immediately before connecting, so that no later answer of a resolver matters.
func (g *guard) control(allowedOnly bool) func(network, address string, c syscall.RawConn) error {
	return func(network, address string, c syscall.RawConn) error {
		if g.isAllowed(address) {
			return nil
		}
		if allowedOnly {
			return fmt.Errorf("%w: plain http needs an allowed address", ErrForbiddenAddress)
		}
		if err := g.public.Safe(network, address, c); err != nil {
			return fmt.Errorf("%w: %w", ErrForbiddenAddress, err)
		}
		return nil
	}
}

// dial returns the dialing function of a transport.
func (g *guard) dial(allowedOnly bool, resolver *net.Resolver) func(ctx context.Context, network, address string) (net.Conn, error) {
	d := &net.Dialer{
		Timeout: dialTimeout, KeepAlive: 30 * time.Second, Resolver: resolver,
		Control: g.control(allowedOnly),
	}
	return d.DialContext
}
