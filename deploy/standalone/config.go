package standalone

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"muster/platform/service"
	queryapi "muster/query-api"
)

// Config says what to run and where.
type Config struct {
	// DataDir holds everything that survives a restart.
	DataDir string
	// Addresses to listen on, host:port; port 0 takes a free one.
	APIAddr, IngestAddr, AdminAddr, ClickHouseAddr, KafkaAddr string
	// AdminHosts are names of the admin address, beside localhost and IP addresses.
	AdminHosts []string
	// Sample is the number of invented people that an empty data folder begins
	// with; 0 for none.
	Sample int
	// WebhookAllow are addresses that webhooks are sent to although they are not
	// public, and by plain http too.
	WebhookAllow []netip.Prefix
	// SearchPostings is that of the query-api's configuration.
	SearchPostings int
	// EraseWithin is how long what was erased may stay on disk; default 24 h.
	EraseWithin time.Duration
	// Accounts are applied at every start, before the first call is answered.
	Accounts queryapi.AccountsFile
	// Compact compacts the embedded broker's log once everything in it is
	// projected. It answers nobody meanwhile.
	Compact bool
	// AcceptDataLoss are topics of the embedded broker that may have lost messages.
	AcceptDataLoss []string
}

// Validate says what is wrong with the configuration.
func (c Config) Validate() error {
	var errs []error
	if c.DataDir == "" {
		errs = append(errs, errors.New("the data folder has no name"))
	}
	if c.EraseWithin != 0 && c.EraseWithin < time.Minute {
		errs = append(errs, errors.New("what was erased may stay on disk for a minute at least"))
	}
	if c.Sample < 0 {
		errs = append(errs, errors.New("the number of sample people is negative"))
	}
	for name, addr := range map[string]string{
		"API": c.APIAddr, "ingest": c.IngestAddr, "admin": c.AdminAddr, "ClickHouse": c.ClickHouseAddr, "Kafka": c.KafkaAddr,
	} {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			errs = append(errs, fmt.Errorf("the %s address %q is not host:port: %w", name, addr, err))
		}
	}
	return errors.Join(errs...)
}

// listenable fails when an address of the services is taken, which they would find out last: an empty data folder is
// prepared for long before. The engines look at theirs first.
func (c Config) listenable(ctx context.Context) (err error) {
	for _, a := range []struct{ what, addr string }{{"api", c.APIAddr}, {"ingest", c.IngestAddr}, {"admin", c.AdminAddr}} {
		ln, listenErr := new(net.ListenConfig).Listen(ctx, "tcp", a.addr)
		if listenErr != nil {
			return fmt.Errorf("listen on the %s address (another one: --%s-addr): %w", a.what, a.what, listenErr)
		}
		defer func() { err = errors.Join(err, ln.Close()) }() // once all are there: no two are the same
	}
	return nil
}

// Deps are what a run uses of its surroundings.
type Deps struct {
	// Version is shown on the status page.
	Version   string
	Telemetry *service.Telemetry
	// EngineCommand is the command line that serves the embedded ClickHouse
	// engine: this program's own `engine`.
	EngineCommand []string
	Getenv        func(string) string
	// Progress shows long work.
	Progress Progress
	// Applied is told what Config.Accounts changed, keys that were drawn
	// included, before anything else happens: they are shown once.
	Applied func([]queryapi.Applied) error
	// Started is called once, when everything answers and the sample is visible.
	Started func(Welcome)
}

// Progress shows how long work goes on.
type Progress interface {
	// Begin starts a piece of work with a total, in units that mean nothing to
	// the one who looks; -1 when it is not known.
	Begin(label string, total int64)
	// Set tells how much of it is done.
	Set(done int64)
	// End ends it.
	End()
}
