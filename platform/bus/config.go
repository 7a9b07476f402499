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

// MaxMessageBytes is what topics and writers carry, in bytes: the default
// max.message.bytes of [EnsureTopics] ("Topics and writers carry 2 MiB").
const MaxMessageBytes = 2 << 20

// metadataTTL bounds how long a client keeps writing to a partition's former
// leader: kafka-go has no forced refresh.
const metadataTTL = 2 * time.Second

const (
	dialTimeout    = 5 * time.Second
	requestTimeout = 10 * time.Second
)

// Config says how to reach a Kafka cluster.
type Config struct {
	// Brokers are host:port addresses to bootstrap from.
	Brokers []string
	// TLS is the client's side of TLS; nil means plaintext.
	TLS *tls.Config
	// SASL authenticates every connection; nil means no authentication.
	SASL sasl.Mechanism
	// ClientID is sent with every request and appears in the broker's logs and quotas.
	ClientID string
	// Logger is told why brokers or topics are still waited for, after 20 s and then each
	// minute, and of record batches that cannot be read where a topic is read without a
	// logger of its own; nil: nobody is.
	Logger *slog.Logger
	// Session is how long a member of a consumer group may be silent before its
	// partitions go to others, and how long a rebalance waits for one that was killed;
	// 0 means the defaults of GroupTiming. Brokers have bounds of their own, of 6 s and
	// 30 min unless set otherwise.
	Session time.Duration
}

// The bounds of Config.Session: a member that is stopped has Drain to finish.
const (
	minSession = 3 * time.Second
	maxSession = 30 * time.Minute
)

// ConfigFromEnv reads a Config from variables, as [os.Getenv] gives them:
//
//	KAFKA_BROKERS         host:port[,host:port...]; empty: no brokers
//	KAFKA_TLS             true or false; each of the files implies true
//	KAFKA_TLS_CA_FILE     PEM file of the authorities to trust instead of the system's
//	KAFKA_TLS_CERT_FILE, KAFKA_TLS_KEY_FILE
//	                      PEM files of the client's certificate and its key: package tlsclient
//	KAFKA_SASL_MECHANISM  PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512; empty: none
//	KAFKA_SASL_USERNAME, KAFKA_SASL_PASSWORD
//	KAFKA_SESSION_TIMEOUT 3s to 30m; empty: the default of GroupTiming
//
// Errors name the variable and never hold a password.
func ConfigFromEnv(getenv func(string) string) (Config, error) {
	var cfg Config
	for _, b := range strings.Split(getenv("KAFKA_BROKERS"), ",") {
		b = strings.TrimSpace(b)
		if b == "" {
			continue
		}
		host, port, err := net.SplitHostPort(b)
		if err != nil {
			return Config{}, fmt.Errorf("KAFKA_BROKERS: %w", err)
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || host == "" {
			return Config{}, fmt.Errorf("KAFKA_BROKERS: %q is not host:port", b)
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
		if cfg.Session, err = time.ParseDuration(v); err != nil || cfg.Session < minSession || cfg.Session > maxSession {
			return Config{}, fmt.Errorf("KAFKA_SESSION_TIMEOUT: %q is not a duration between %s and %s, as 10s", v, minSession, maxSession)
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

// SCRAM authenticates a user with SCRAM-SHA-256. Its error never holds the password.
func SCRAM(user, password string) (sasl.Mechanism, error) {
	return scramOf(scram.SHA256, user, password)
}

func scramOf(algo scram.Algorithm, user, password string) (sasl.Mechanism, error) {
	m, err := scram.Mechanism(algo, user, password)
	if err != nil {
		// It may quote the password that it could not prepare.
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
		return nil, errors.New("KAFKA_SASL_MECHANISM needs KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD")
	}
	var m sasl.Mechanism
	var err error
	switch strings.ToUpper(name) {
	case "PLAIN":
		return plain.Mechanism{Username: user, Password: pass}, nil
	case "SCRAM-SHA-256":
		m, err = scramOf(scram.SHA256, user, pass)
	case "SCRAM-SHA-512":
		m, err = scramOf(scram.SHA512, user, pass)
	default:
		return nil, fmt.Errorf("KAFKA_SASL_MECHANISM: %q is none of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512", name)
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

// transport returns connections of their own: its user closes them with
// CloseIdleConnections.
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
