package standalone

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"muster/deploy/internal/analyst"
	discovery "muster/discovery-worker"
	"muster/platform/bus"
	"muster/platform/clickhouse"
	"muster/platform/engine"
	"muster/platform/opensearch"
	"muster/platform/service"
	queryapi "muster/query-api"
)

// Config is the configuration of a run.
type Config struct {
	// DataDir holds everything that survives a restart.
	DataDir string
	// Addresses to listen on, host:port; port 0 takes a free one.
	APIAddr, IngestAddr, AdminAddr, ClickHouseAddr, KafkaAddr string
	// AdminHosts are host names of the admin address, in addition to localhost and IP addresses.
	AdminHosts []string
	// Sample is the number of synthetic people to fill an empty data directory with; 0 for none.
	Sample int
	// WebhookAllow are private address ranges that webhooks may be sent to, also with http.
	WebhookAllow []netip.Prefix
	// Origins are the origins whose web pages may call the API.
	Origins []string
	// SearchPostings is the setting of the query-api configuration.
	SearchPostings int
	// EraseWithin is the maximum time that erased data stays on disk; default 24 h.
	EraseWithin time.Duration
	// Accounts are applied at every start, before the first call is answered.
	Accounts queryapi.AccountsFile
	// Compact compacts the log of the embedded broker once it is projected. The broker does not respond during the
	// compaction.
	Compact bool
	// AcceptDataLoss are topics of the embedded broker that may have lost messages.
	AcceptDataLoss []string
}

// Validate returns the errors of the configuration.
func (c Config) Validate() error {
	var errs []error
	if c.DataDir == "" {
		errs = append(errs, errors.New("the data directory is empty"))
	}
	if c.EraseWithin != 0 && c.EraseWithin < time.Minute {
		errs = append(errs, errors.New("the erasure deadline is under 1 minute"))
	}
	if c.Sample < 0 {
		errs = append(errs, errors.New("the number of sample people is negative"))
	}
	errs = append(errs, queryapi.Config{Origins: c.Origins}.Validate())
	for name, addr := range map[string]string{
		"API": c.APIAddr, "ingest": c.IngestAddr, "admin": c.AdminAddr, "ClickHouse": c.ClickHouseAddr,
		"Kafka": c.KafkaAddr,
	} {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			errs = append(errs, fmt.Errorf("the %s address %q is not host:port: %w", name, addr, err))
		}
	}
	return errors.Join(errs...)
}

// checkEnvironment returns an error if a variable names an external server in an invalid form. The services would
// notice only after the engines have started. It does not connect.
func checkEnvironment(getenv func(string) string) error {
	_, kafkaErr := bus.ConfigFromEnv(getenv)
	store, clickHouseErr := clickhouse.ConfigFromEnv(getenv)
	_, analystErr := analyst.OpenViews(store, false, getenv)
	_, _, searchErr := opensearch.ConfigFromEnv(getenv)
	_, providersErr := discovery.ProvidersFromEnv(getenv)
	err := errors.Join(kafkaErr, clickHouseErr, analystErr, searchErr, providersErr)
	if getenv(queryapi.RedisEnv) != "" {
		client, redisErr := queryapi.OpenRedis(getenv)
		if redisErr == nil {
			redisErr = client.Close()
		}
		err = errors.Join(err, redisErr)
	}
	return err
}

// checkAddresses returns an error, with the flag to change, if an address is in use. The services would notice only
// after an empty data directory is prepared, which takes long.
func (c Config) checkAddresses(ctx context.Context, getenv func(string) string) (err error) {
	addresses := []struct{ what, addr string }{{"api", c.APIAddr}, {"ingest", c.IngestAddr}, {"admin", c.AdminAddr}}
	if getenv("KAFKA_BROKERS") == "" {
		addresses = append(addresses, struct{ what, addr string }{"kafka", c.KafkaAddr})
	}
	if getenv(clickhouse.DSNEnv) == "" {
		c.awaitEngine(ctx)
		addresses = append(addresses, struct{ what, addr string }{"clickhouse", c.ClickHouseAddr})
	}
	for _, a := range addresses {
		ln, listenErr := new(net.ListenConfig).Listen(ctx, "tcp", a.addr)
		if listenErr != nil {
			return fmt.Errorf("listen on the %s address (change it with --%s-addr): %w", a.what, a.what, listenErr)
		}
		// Close them together, so that two equal addresses are an error.
		defer func() { err = errors.Join(err, ln.Close()) }()
	}
	return nil
}

// engineEnds is how long the engine of a run that was killed may take to end.
const engineEnds = 20 * time.Second

// awaitEngine waits until the engine of a run that was killed has ended: it holds its lock as long as its address.
func (c Config) awaitEngine(ctx context.Context) {
	dir := c.engineDir()
	if _, err := os.Stat(dir); err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, engineEnds)
	defer cancel()
	if unlock, err := engine.Lock(ctx, dir); err == nil { // else the engine says what is wrong
		unlock()
	}
}

func (c Config) engineDir() string { return filepath.Join(c.DataDir, "clickhouse") }

// Deps are the dependencies of a run.
type Deps struct {
	// Version is shown on the status page.
	Version   string
	Telemetry *service.Telemetry
	// EngineCommand is the command line of the embedded ClickHouse engine: this executable with `engine`.
	EngineCommand []string
	Getenv        func(string) string
	// Progress shows long work.
	Progress Progress
	// Applied gets the changes from Config.Accounts, including new keys, which are shown once, before the run
	// continues.
	Applied func([]queryapi.Applied) error
	// Started is called once, when all services are ready and the sample is visible.
	Started func(StartupSummary)
}

// Progress shows the progress of long work.
type Progress interface {
	// Begin starts a piece of work with a total in arbitrary units; -1 if unknown.
	Begin(label string, total int64)
	// Set reports how much is done.
	Set(done int64)
	// End ends the piece of work.
	End()
}
