package bus

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"

	"muster/platform/tlsclient"
)

// MaxMessageBytes is the size limit of messages: the default max.message.bytes of [EnsureTopics] and the limit of
// writers.
const MaxMessageBytes = 2 << 20

// metadataTTL is the refresh interval of cached metadata. It bounds how long a client writes to a partition's former
// leader: kafka-go cannot force a refresh.
const metadataTTL = 2 * time.Second

const (
	dialTimeout    = 5 * time.Second
	requestTimeout = 10 * time.Second
)

// Config holds the connection settings of a Kafka cluster.
type Config struct {
	// Brokers are the host:port bootstrap addresses.
	Brokers []string
	// TLS is the client TLS configuration; nil means plaintext.
	TLS *tls.Config
	// SASL authenticates every connection; nil means no authentication.
	SASL sasl.Mechanism
	// ClientID is sent with every request and appears in the broker's logs and quotas.
	ClientID string
	// Logger receives warnings about unavailable brokers and missing topics, after 20 s and then each minute, and
	// errors about corrupt record batches if the caller sets no other logger. Nil discards them.
	Logger *slog.Logger
	// Session is the session timeout of consumer group members: how long a member may be silent before its partitions
	// are reassigned, and how long a rebalance waits for a killed member. 0 means the defaults of GroupTiming. Brokers
	// have their own limits, by default 6 s to 30 min.
	Session time.Duration
}

// Limits of Config.Session. The minimum leaves GroupTiming.Drain for a member that is stopped.
const (
	minSession = 3 * time.Second
	maxSession = 30 * time.Minute
)

// ConfigFromEnv returns a Config from environment variables, read with getenv as by [os.Getenv]:
//
//	KAFKA_BROKERS         host:port[,host:port...]; empty: no brokers
//	KAFKA_TLS             true or false; each of the files implies true
//	KAFKA_TLS_CA_FILE     PEM file of trusted certificate authorities instead of the system's
//	KAFKA_TLS_CERT_FILE, KAFKA_TLS_KEY_FILE
//	                      PEM files of the client certificate and its key: package tlsclient
//	KAFKA_SASL_MECHANISM  PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512; empty: none
//	KAFKA_SASL_USERNAME, KAFKA_SASL_PASSWORD
//	KAFKA_SESSION_TIMEOUT 3s to 30m; empty: the default of GroupTiming
//
// Errors name the variable and never contain a password.
func ConfigFromEnv(getenv func(string) string) (Config, error) {
	var cfg Config
	for _, b := range strings.Split(getenv("KAFKA_BROKERS"), ",") {
		b = strings.TrimSpace(b)
		if b == "" {
			continue
		}
		if at := strings.LastIndexByte(b, '@'); at >= 0 {
			return Config{}, fmt.Errorf("KAFKA_BROKERS: %q has credentials before it; set them with "+
				"KAFKA_SASL_MECHANISM, KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD", b[at+1:])
		}
		host, port, err := net.SplitHostPort(b)
		n, portErr := strconv.ParseUint(port, 10, 16)
		if err != nil || portErr != nil || n == 0 || host == "" || strings.ContainsAny(host, "/ ;") {
			return Config{}, fmt.Errorf("KAFKA_BROKERS: %q is not host:port; give a comma-separated list without a "+
				"scheme, such as kafka1:9092,kafka2:9092", b)
		}
		cfg.Brokers = append(cfg.Brokers, b)
	}
	var err error
	if cfg.TLS, err = tlsFromEnv(getenv); err != nil {
		return Config{}, err
	}
	if cfg.SASL, err = saslFromEnv(getenv); err != nil {
		return Config{}, err
	}
	if v := getenv("KAFKA_SESSION_TIMEOUT"); v != "" {
		if cfg.Session, err = time.ParseDuration(v); err != nil || cfg.Session < minSession ||
			cfg.Session > maxSession {
			return Config{}, fmt.Errorf("KAFKA_SESSION_TIMEOUT: %q is not a duration from %s to %s, such as 10s",
				v, minSession, maxSession)
		}
	}
	return cfg, nil
}

func tlsFromEnv(getenv func(string) string) (*tls.Config, error) {
	files, err := tlsclient.FromEnv(getenv, "KAFKA")
	if err != nil {
		return nil, err
	}
	on := files != nil
	if v := getenv("KAFKA_TLS"); v != "" {
		if on, err = strconv.ParseBool(v); err != nil {
			return nil, fmt.Errorf("KAFKA_TLS: %q is neither true nor false", v)
		}
		if !on && files != nil {
			return nil, errors.New("KAFKA_TLS is false although KAFKA_TLS_CA_FILE or KAFKA_TLS_CERT_FILE is set")
		}
	}
	if !on {
		return nil, nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	files.Apply(cfg)
	return cfg, nil
}

// SCRAM returns a SCRAM-SHA-256 mechanism. Its error never contains the password.
func SCRAM(user, password string) (sasl.Mechanism, error) {
	return newSCRAM(scram.SHA256, user, password)
}

func newSCRAM(algo scram.Algorithm, user, password string) (sasl.Mechanism, error) {
	m, err := scram.Mechanism(algo, user, password)
	if err != nil {
		// The original error may quote the password.
		return nil, errors.New("user or password: not valid for SCRAM")
	}
	return m, nil
}

func saslFromEnv(getenv func(string) string) (sasl.Mechanism, error) {
	name, user, pass := getenv("KAFKA_SASL_MECHANISM"), getenv("KAFKA_SASL_USERNAME"), getenv("KAFKA_SASL_PASSWORD")
	if name == "" {
		if user != "" || pass != "" {
			return nil, errors.New("KAFKA_SASL_USERNAME or KAFKA_SASL_PASSWORD is set, KAFKA_SASL_MECHANISM is not")
		}
		return nil, nil
	}
	if user == "" || pass == "" {
		return nil, errors.New("KAFKA_SASL_MECHANISM requires KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD")
	}
	var m sasl.Mechanism
	var err error
	switch strings.ToUpper(name) {
	case "PLAIN":
		return plain.Mechanism{Username: user, Password: pass}, nil
	case "SCRAM-SHA-256":
		m, err = newSCRAM(scram.SHA256, user, pass)
	case "SCRAM-SHA-512":
		m, err = newSCRAM(scram.SHA512, user, pass)
	default:
		return nil, fmt.Errorf("KAFKA_SASL_MECHANISM: %q is not PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512", name)
	}
	if err != nil {
		return nil, fmt.Errorf("KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD: %w", err)
	}
	return m, nil
}

func (c Config) logger() *slog.Logger {
	if c.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return c.Logger
}

func (c Config) validate() error {
	if len(c.Brokers) == 0 {
		return errors.New("no Kafka brokers configured")
	}
	return nil
}

// transport returns a transport with its own connections, which the caller closes with CloseIdleConnections.
func (c Config) transport(topics ...string) *kafka.Transport {
	return &kafka.Transport{
		Dial:           c.dial,
		DialTimeout:    dialTimeout,
		MetadataTTL:    metadataTTL,
		MetadataTopics: topics,
		ClientID:       c.ClientID,
		SASL:           c.SASL,
	}
}

func (c Config) client(t *kafka.Transport) *kafka.Client {
	return &kafka.Client{Addr: kafka.TCP(c.Brokers...), Timeout: requestTimeout, Transport: t}
}
