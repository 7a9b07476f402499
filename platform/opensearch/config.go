package opensearch

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"muster/platform/tlsclient"
)

// Environment variables of ConfigFromEnv.
const (
	URLEnv      = "OPENSEARCH_URL"
	UserEnv     = "OPENSEARCH_USERNAME"
	PasswordEnv = "OPENSEARCH_PASSWORD"
	PrefixEnv   = "OPENSEARCH_INDEX_PREFIX"
	ShardsEnv   = "OPENSEARCH_SHARDS"
	ReplicasEnv = "OPENSEARCH_REPLICAS"
)

// defaultPrefix is the default of Config.Prefix.
const defaultPrefix = "muster-"

// Config configures a Client.
type Config struct {
	// Nodes are the base URLs of nodes, http or https, without credentials. Required.
	Nodes              []string
	Username, Password string
	// TLS has the authorities and the client certificate; nil: those of the system, and none.
	TLS *tls.Config
	// Prefix begins the names of all indexes and aliases.
	Prefix string
	// Shards is the number of primary shards of new indexes. Replicas is their number of replicas; empty: one, if there
	// are several nodes.
	Shards   int
	Replicas string
}

// ConfigFromEnv reads a Config from environment variables; getenv is [os.Getenv]. ok is false if OPENSEARCH_URL is
// empty. Errors contain neither a password nor the content of a file.
//
//	OPENSEARCH_URL           base URLs of nodes, comma-separated; user:password@ of the first one that has it applies to
//	                         all
//	OPENSEARCH_USERNAME, OPENSEARCH_PASSWORD
//	                         override those of the URL
//	OPENSEARCH_TLS_CA_FILE, OPENSEARCH_TLS_CERT_FILE, OPENSEARCH_TLS_KEY_FILE
//	                         PEM files, as of package tlsclient
//	OPENSEARCH_INDEX_PREFIX  default muster-
//	OPENSEARCH_SHARDS        primary shards of new indexes; default 1
//	OPENSEARCH_REPLICAS      replicas of new indexes; default: one if there are several nodes
func ConfigFromEnv(getenv func(string) string) (cfg Config, ok bool, err error) {
	list := getenv(URLEnv)
	if strings.TrimSpace(list) == "" {
		return cfg, false, nil
	}
	for text := range strings.SplitSeq(list, ",") {
		u, err := url.Parse(strings.TrimSpace(text))
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" ||
			u.Fragment != "" {
			// The value is not repeated, because it may have a password.
			return cfg, false, fmt.Errorf("%s: nodes are http:// or https:// URLs such as https://node:9200, without a "+
				"query; commas separate several", URLEnv)
		}
		if u.User != nil && cfg.Username == "" {
			cfg.Username = u.User.Username()
			cfg.Password, _ = u.User.Password()
		}
		u.User = nil
		cfg.Nodes = append(cfg.Nodes, strings.TrimSuffix(u.String(), "/"))
	}
	if user := getenv(UserEnv); user != "" {
		cfg.Username = user
	}
	if password := getenv(PasswordEnv); password != "" {
		cfg.Password = password
	}
	if cfg.Password != "" && cfg.Username == "" {
		return cfg, false, fmt.Errorf("%s is set, but not %s", PasswordEnv, UserEnv)
	}
	files, err := tlsclient.FromEnv(getenv, "OPENSEARCH")
	if err != nil {
		return cfg, false, err
	}
	if files != nil {
		cfg.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
		files.Apply(cfg.TLS)
	}
	cfg.Prefix = defaultPrefix
	if prefix := getenv(PrefixEnv); prefix != "" {
		if !regexp.MustCompile(`^[a-z0-9][a-z0-9_.-]{0,99}$`).MatchString(prefix) {
			return cfg, false, fmt.Errorf("%s: must be at most 100 of a-z, 0-9, '_', '.' and '-', and begin with a letter "+
				"or digit", PrefixEnv)
		}
		cfg.Prefix = prefix
	}
	if cfg.Shards, err = count(getenv, ShardsEnv, 1, 1024); err != nil {
		return cfg, false, err
	}
	cfg.Shards = max(cfg.Shards, 1)
	if getenv(ReplicasEnv) != "" {
		n, err := count(getenv, ReplicasEnv, 0, 100)
		if err != nil {
			return cfg, false, err
		}
		cfg.Replicas = strconv.Itoa(n)
	}
	return cfg, true, nil
}

// count reads a number from least to most; 0 if the variable is empty.
func count(getenv func(string) string, name string, least, most int) (int, error) {
	text := getenv(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%s: must be a number from %d to %d", name, least, most)
	}
	return n, nil
}

// validate returns an error if a field is missing.
func (c Config) validate() error {
	if len(c.Nodes) == 0 {
		return errors.New("opensearch: no nodes")
	}
	return nil
}
