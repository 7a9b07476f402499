package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"muster/platform/suggest"
)

const (
	configEnv = "MUSTER_CONFIG"
	// packagedProgram reads packagedConfig by default, since both are installed by the package. A program elsewhere,
	// such as one built from source, does not.
	packagedProgram = "/usr/bin/muster"
	packagedConfig  = "/etc/muster/muster.yaml"
	maskedSecret    = "********"
)

// Sources of a setting's value, strongest first.
const (
	sourceFlag        = "flag"
	sourceEnvironment = "environment"
	sourceFile        = "file"
	sourceDefault     = "default"
)

// setting is a value that muster is configured with: by a flag or variable, or in the configuration file.
type setting struct {
	Name        string   `json:"name"`
	Flag        string   `json:"flag,omitempty"`
	Variable    string   `json:"variable"`
	Commands    []string `json:"commands,omitempty"`
	Default     string   `json:"default"`
	Value       string   `json:"value"`
	Source      string   `json:"source"`
	Description string   `json:"description"`
	secret      bool
	// exported settings are read from the process's environment, by libraries or by child processes.
	exported bool
}

// flagSettings are the flags of the commands that run for long, and those of every command.
func flagSettings(root *cobra.Command) []setting {
	var out []setting
	add := func(command string, f *pflag.Flag) {
		// A configuration file must not name another one, nor accept data loss at every start.
		if f.Hidden || f.Name == "help" || f.Name == "version" || f.Name == "config" || f.Name == "accept-data-loss" {
			return
		}
		i := slices.IndexFunc(out, func(s setting) bool { return s.Name == f.Name })
		if i < 0 {
			i = len(out)
			out = append(out, setting{
				Name: f.Name, Flag: "--" + f.Name, Variable: flagVariable(f.Name), Description: f.Usage,
				Default: strings.Trim(f.DefValue, "[]"),
			})
		}
		if command != "" {
			out[i].Commands = append(out[i].Commands, command)
		}
	}
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) { add("", f) })
	for _, cmd := range root.Commands() {
		if isConfigurable(cmd) {
			cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) { add(cmd.Name(), f) })
		}
	}
	return out
}

func flagVariable(flag string) string {
	return "MUSTER_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// isConfigurable reports whether the flags of a command are settings.
func isConfigurable(cmd *cobra.Command) bool {
	return cmd.HasParent() && !cmd.Parent().HasParent() && slices.Contains([]string{"up", "run", "engine"}, cmd.Name())
}

// variableSettings returns the settings without a flag.
func variableSettings() []setting {
	value := func(variable, description string) setting {
		name := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(variable, "MUSTER_"), "_", "-"))
		return setting{Name: name, Variable: variable, Description: description}
	}
	secret := func(variable, description string) setting {
		s := value(variable, description)
		s.secret = true
		return s
	}
	exported := func(variable, description string) setting {
		s := value(variable, description)
		s.exported = true
		return s
	}
	withDefault := func(s setting, value string) setting {
		s.Default = value
		return s
	}
	return []setting{
		secret("MUSTER_SECRET_KEY", "root secret, at least 32 bytes; empty: secret.key in the data directory"),
		secret("MUSTER_OPERATOR_TOKEN", "token of HTTP push, of the ingest service"),
		secret("MUSTER_ENGINE_PASSWORD", "password of the users muster and analyst of `muster engine`"),
		exported("MUSTER_LIBCHDB", "path of the engine's library; empty: installed, cached or fetched by npm"),
		value("MUSTER_BASE_URL", "address of a running API, for commands; empty: the instance of the data directory"),
		secret("MUSTER_API_KEY", "API key of `muster mcp`; empty: that of the instance of the data directory"),
		value("MUSTER_ADMIN_URL", "admin address of a running instance, for commands; empty: likewise"),
		value("KAFKA_BROKERS", "external Kafka brokers, host:port, comma-separated; empty: the embedded broker"),
		value("KAFKA_TLS", "true for TLS; implied by the files"),
		value("KAFKA_TLS_CA_FILE", "PEM file of the authorities that sign the brokers' certificates"),
		value("KAFKA_TLS_CERT_FILE", "PEM file of the client certificate for Kafka"),
		value("KAFKA_TLS_KEY_FILE", "PEM file of the client certificate's key for Kafka"),
		value("KAFKA_SASL_MECHANISM", "PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512; empty: no SASL"),
		value("KAFKA_SASL_USERNAME", "SASL user"),
		secret("KAFKA_SASL_PASSWORD", "SASL password"),
		withDefault(value("KAFKA_SESSION_TIMEOUT", "session timeout of consumer groups"), "10s"),
		value("CLICKHOUSE_DSN", "external ClickHouse, http(s)://USER:PASSWORD@HOST:PORT/DATABASE; empty: the engine"),
		value("CLICKHOUSE_TLS_CA_FILE", "PEM file of the authorities that sign ClickHouse's certificates"),
		value("CLICKHOUSE_TLS_CERT_FILE", "PEM file of the client certificate for ClickHouse"),
		value("CLICKHOUSE_TLS_KEY_FILE", "PEM file of the client certificate's key for ClickHouse"),
		secret("MUSTER_ANALYST_DSN", "user of the questions at /explore on an external ClickHouse; empty: no questions"),
		value("REDIS_URL", "Redis that replicas of query-api share; empty: none"),
		value("REDIS_TLS_CA_FILE", "PEM file of the authorities that sign Redis' certificates"),
		value("REDIS_TLS_CERT_FILE", "PEM file of the client certificate for Redis"),
		value("REDIS_TLS_KEY_FILE", "PEM file of the client certificate's key for Redis"),
		value("OPENSEARCH_URL", "OpenSearch nodes for search, http(s)://HOST:PORT, comma-separated; empty: search in memory"),
		value("OPENSEARCH_USERNAME", "user of OpenSearch"),
		secret("OPENSEARCH_PASSWORD", "password of OpenSearch"),
		value("OPENSEARCH_TLS_CA_FILE", "PEM file of the authorities that sign OpenSearch's certificates"),
		value("OPENSEARCH_TLS_CERT_FILE", "PEM file of the client certificate for OpenSearch"),
		value("OPENSEARCH_TLS_KEY_FILE", "PEM file of the client certificate's key for OpenSearch"),
		withDefault(value("OPENSEARCH_INDEX_PREFIX", "prefix of the names of indexes and aliases"), "muster-"),
		withDefault(value("OPENSEARCH_SHARDS", "primary shards of a new search index"), "1"),
		value("OPENSEARCH_REPLICAS", "replicas of a new search index; empty: one, if there are several nodes"),
		value("SEARXNG_URL", "SearXNG instance for discovery; empty: not used"),
		value("BRAVE_URL", "address of Brave Search; empty: its own"),
		secret("BRAVE_API_KEY", "keys of Brave Search, comma-separated; empty: not used"),
		value("TAVILY_URL", "address of Tavily; empty: its own"),
		secret("TAVILY_API_KEY", "keys of Tavily, comma-separated; empty: not used"),
		value("EXA_URL", "address of Exa; empty: its own"),
		secret("EXA_API_KEY", "keys of Exa, comma-separated; empty: not used"),
		value("CODEHOST_API_URL", "code-host API for discovery; empty: not used"),
		secret("CODEHOST_API_TOKENS", "tokens of the code-host API, comma-separated"),
		value("DISCOVERY_PROVIDER_TIMEOUT", "time limit of a provider's request"),
		value("DISCOVERY_PROVIDER_CONCURRENCY", "concurrent requests to a provider"),
		withDefault(value("DISCOVERY_PREVALENCE", "probability of a profile on another platform"), "0.5"),
		value("DISCOVERY_COVERAGE", "share of the existing profiles that are stored, for all or PLATFORM=SHARE,...; "+
			"empty: estimated"),
		withDefault(value("DISCOVERY_POPULATION", "people for each one in the store, who may have the same name"), "16"),
		value("MUSTER_LLM_URL", "OpenAI-compatible language model for discovery and context; empty: not used"),
		secret("MUSTER_LLM_API_KEY", "key of the language model"),
		value("MUSTER_LLM_NAME", "name of the language model"),
		exported("OTEL_EXPORTER_OTLP_ENDPOINT", "OTLP endpoint of traces; empty: no traces"),
		exported("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "the same, for traces only"),
		exported("OTEL_SDK_DISABLED", "true disables traces"),
	}
}

func allSettings(root *cobra.Command) []setting {
	return append(flagSettings(root), variableSettings()...)
}

// configFile is a configuration file that was read.
type configFile struct {
	path   string
	values map[string][]string
}

// configPath returns the configuration file to read, "" for none.
func (c *command) configPath() string {
	if c.config != "" {
		return c.config
	}
	if path := c.getenv(configEnv); path != "" {
		return path
	}
	if program, err := os.Executable(); err == nil && program == packagedProgram {
		if _, err := os.Stat(packagedConfig); err == nil {
			return packagedConfig
		}
	}
	return ""
}

// readConfig reads a configuration file: a mapping from names of settings to values or lists of values.
func readConfig(path string, known []setting) (configFile, error) {
	file := configFile{path: path, values: map[string][]string{}}
	raw, err := os.ReadFile(path)
	if err != nil {
		return file, fmt.Errorf("read configuration: %w", err)
	}
	var nodes map[string]yaml.Node
	if err := yaml.Unmarshal(raw, &nodes); err != nil {
		return file, fmt.Errorf("configuration %s: %w", path, err)
	}
	names := make([]string, len(known))
	for i, s := range known {
		names[i] = s.Name
	}
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		node := nodes[name]
		i := slices.Index(names, name)
		if i < 0 {
			return file, fmt.Errorf("configuration %s: line %d: unknown setting %q: %s", path, node.Line, name,
				suggest.Hint(name, names, "See `muster config` for all settings"))
		}
		values, err := readValues(&node)
		if err != nil {
			return file, fmt.Errorf("configuration %s: line %d: %s: %w", path, node.Line, name, err)
		}
		if known[i].secret && len(values) > 0 {
			if err := requirePrivate(path); err != nil {
				return file, fmt.Errorf("configuration %s holds %s: %w", path, name, err)
			}
		}
		file.values[name] = values
	}
	return file, nil
}

// readValues returns the text of a value, or of each value of a list.
func readValues(node *yaml.Node) ([]string, error) {
	switch {
	case node.Kind == yaml.ScalarNode && node.Tag == "!!null":
		return nil, nil
	case node.Kind == yaml.ScalarNode:
		return []string{node.Value}, nil
	case node.Kind != yaml.SequenceNode:
		return nil, errors.New("must be a value or a list of values")
	}
	var out []string
	for _, item := range node.Content {
		if item.Kind != yaml.ScalarNode {
			return nil, errors.New("must be a value or a list of values")
		}
		out = append(out, item.Value)
	}
	return out, nil
}

// requirePrivate returns an error if all users of the machine can read a file.
func requirePrivate(path string) error {
	info, err := os.Stat(path)
	if err == nil && info.Mode().Perm()&0o004 != 0 {
		err = fmt.Errorf("every user can read it: %w (chmod o= %s)", fs.ErrPermission, path)
	}
	return err
}

// loadSettings applies the environment and the configuration file to the flags of cmd that were not passed, and the
// variables that are not set.
func (c *command) loadSettings(cmd *cobra.Command) error {
	path := c.configPath()
	if path != "" {
		file, err := readConfig(path, allSettings(cmd.Root()))
		if err != nil {
			return err
		}
		c.file = file
	}
	for _, s := range flagSettings(cmd.Root()) {
		flag := cmd.Flags().Lookup(s.Name)
		if flag == nil || flag.Changed || len(s.Commands) > 0 && !isConfigurable(cmd) {
			continue
		}
		if s.Name == "no-sample" && cmd.Flags().Changed("sample") {
			continue // a requested size has precedence
		}
		values, source := c.lookup(s)
		if len(values) == 0 {
			continue
		}
		if err := setFlag(flag, values); err != nil {
			from := s.Variable
			if source == sourceFile {
				from = "configuration " + path + ": " + s.Name
			}
			return fmt.Errorf("%s: %w", from, err)
		}
	}
	environment := c.getenv
	c.fromFile = map[string]string{}
	for _, s := range variableSettings() {
		values := c.file.values[s.Name]
		if len(values) == 0 || environment(s.Variable) != "" {
			continue
		}
		c.fromFile[s.Variable] = strings.Join(values, ",")
		if s.exported {
			if err := os.Setenv(s.Variable, c.fromFile[s.Variable]); err != nil {
				return err
			}
		}
	}
	c.getenv = func(name string) string {
		if value := environment(name); value != "" {
			return value
		}
		return c.fromFile[name]
	}
	return nil
}

// lookup returns the values of a setting in the environment, else in the configuration file.
func (c *command) lookup(s setting) (values []string, source string) {
	if value := c.getenv(s.Variable); value != "" {
		return []string{value}, sourceEnvironment
	}
	if values := c.file.values[s.Name]; len(values) > 0 {
		return values, sourceFile
	}
	return nil, sourceDefault
}

// setFlag sets a flag without marking it as passed. A list is split at commas and spaces.
func setFlag(flag *pflag.Flag, values []string) error {
	if list, ok := flag.Value.(pflag.SliceValue); ok {
		split := func(r rune) bool { return r == ',' || r == ' ' }
		return list.Replace(strings.FieldsFunc(strings.Join(values, ","), split))
	}
	if len(values) != 1 {
		return errors.New("must be one value, not a list")
	}
	return flag.Value.Set(values[0])
}

// maskValue hides secrets, and passwords in URLs.
func maskValue(s setting, value string) string {
	switch {
	case value == "":
		return ""
	case s.secret:
		return maskedSecret
	case !strings.Contains(value, "://"):
		return value
	}
	u, err := url.Parse(value)
	if err != nil {
		return maskedSecret
	}
	query := u.Query()
	for name := range query {
		if strings.Contains(strings.ToLower(name), "password") {
			query.Set(name, "xxxxx")
			u.RawQuery = query.Encode()
		}
	}
	return u.Redacted()
}
