package instance

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"muster/platform/atomicfile"
	"muster/platform/bus"
)

// FileName is the name of the instance file in a data directory.
const FileName = "standalone.json"

// Instance has the addresses and credentials of a running muster. The file has mode 0600, since it contains secrets.
type Instance struct {
	// BaseURL is the URL of the HTTP API, without /v1.
	BaseURL string `json:"base_url"`
	// APIKey belongs to an organization on the development plan.
	APIKey string `json:"api_key"`
	// OperatorToken authorizes HTTP push and the operators' endpoints.
	OperatorToken string `json:"operator_token"`
	// IngestURL is the URL of HTTP push.
	IngestURL string `json:"ingest_url"`
	// AdminURL is the URL of metrics, health and readiness.
	AdminURL string `json:"admin_url"`
	// Kafka is the comma-separated list of broker addresses.
	Kafka string `json:"kafka"`
	// KafkaUser and KafkaPassword are the SCRAM-SHA-256 credentials of the embedded broker; empty for external
	// brokers.
	KafkaUser     string `json:"kafka_user,omitempty"`
	KafkaPassword string `json:"kafka_password,omitempty"`
	// ClickHouseURL is the URL of the HTTP interface, with the credentials of the service user and the database of the
	// read models.
	ClickHouseURL string `json:"clickhouse_url"`
	// OpenSearch has the environment variables of the search cluster; empty without one.
	OpenSearch map[string]string `json:"opensearch,omitempty"`
	// PID is the ID of the serving process, which holds the lock of the data directory; 0 if it has ended.
	PID int `json:"pid"`
}

// ErrNotRunning reports that no instance serves a data directory.
var ErrNotRunning = errors.New("no running muster")

// Read returns what the last `muster up` wrote to the instance file of a data directory, whether it still runs or not.
// The error wraps fs.ErrNotExist if there is no file.
func Read(dataDir string) (Instance, error) {
	var in Instance
	path := filepath.Join(dataDir, FileName)
	raw, err := os.ReadFile(path)
	if err != nil {
		return in, fmt.Errorf("read the instance file: %w", err)
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return in, fmt.Errorf("read the instance file %s: %w", path, err)
	}
	return in, nil
}

// Running returns the instance of the process that serves a data directory: the holder of its lock. A process ID alone
// may belong to another program by now. It returns ErrNotRunning, with the fix, if no process holds the lock, or if one
// does that is still starting or does not run the platform.
func Running(dataDir string) (Instance, error) {
	pid, work, err := LockOwner(dataDir)
	if err != nil {
		return Instance{}, err
	}
	var fix string
	switch {
	case pid == 0:
		fix = "start one with `muster up --data-dir " + dataDir + "`"
	case work != "":
		fix = fmt.Sprintf("process %d (%s) has locked it: wait until that command ends", pid, work)
	default:
		in, err := Read(dataDir)
		if err == nil && in.PID == pid || err != nil && !errors.Is(err, fs.ErrNotExist) {
			return in, err
		}
		fix = fmt.Sprintf("process %d has locked it, but is still starting or serves only the engine: wait until "+
			"`muster up` is ready", pid)
	}
	return Instance{}, fmt.Errorf("%w at data directory %q: %s", ErrNotRunning, dataDir, fix)
}

// Find returns the addresses of the running instance of a data directory. The environment variables KAFKA_BROKERS,
// CLICKHOUSE_DSN, MUSTER_ADMIN_URL, MUSTER_BASE_URL and MUSTER_OPERATOR_TOKEN override its file. It returns
// ErrNotRunning if neither the running instance nor the environment has the brokers and ClickHouse.
func Find(dataDir string, getenv func(string) string) (Instance, error) {
	in, notRunning := Running(dataDir)
	if notRunning != nil && !errors.Is(notRunning, ErrNotRunning) {
		return in, notRunning
	}
	for name, field := range map[string]*string{
		"KAFKA_BROKERS":         &in.Kafka,
		"CLICKHOUSE_DSN":        &in.ClickHouseURL,
		"MUSTER_ADMIN_URL":      &in.AdminURL,
		"MUSTER_BASE_URL":       &in.BaseURL,
		"MUSTER_OPERATOR_TOKEN": &in.OperatorToken,
	} {
		if v := strings.TrimSpace(getenv(name)); v != "" {
			*field = v
		}
	}
	for name, address := range map[string]string{"MUSTER_ADMIN_URL": in.AdminURL, "MUSTER_BASE_URL": in.BaseURL} {
		u, err := url.Parse(address)
		if getenv(name) != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
			return in, fmt.Errorf("%s: %q is not an http or https URL, such as http://127.0.0.1:8080", name, address)
		}
	}
	if strings.TrimSpace(getenv("KAFKA_BROKERS")) != "" {
		in.KafkaUser, in.KafkaPassword = "", "" // not for external brokers
	}
	if notRunning != nil && (in.Kafka == "" || in.ClickHouseURL == "") {
		return in, fmt.Errorf("%w, set --data-dir to another directory, or set KAFKA_BROKERS and CLICKHOUSE_DSN",
			notRunning)
	}
	return in, nil
}

// Bus returns the configuration of the instance's brokers. For external brokers, the instance has only the addresses;
// env has the rest.
func (in Instance) Bus(env bus.Config) (bus.Config, error) {
	env.Brokers = strings.Split(in.Kafka, ",")
	if in.KafkaUser == "" {
		return env, nil
	}
	env.TLS = nil // the embedded broker has no TLS
	var err error
	if env.SASL, err = bus.SCRAM(in.KafkaUser, in.KafkaPassword); err != nil {
		return env, fmt.Errorf("connect to the instance's broker: %w", err)
	}
	return env, nil
}

// SearchEnv returns getenv with the instance's variables of the search cluster, unless the environment names another one.
func (in Instance) SearchEnv(getenv func(string) string) func(string) string {
	if len(in.OpenSearch) == 0 || getenv("OPENSEARCH_URL") != "" {
		return getenv
	}
	return func(name string) string {
		if value, ok := in.OpenSearch[name]; ok {
			return value
		}
		return getenv(name)
	}
}

// Retire marks the instance file of a data directory as that of a process that has ended. A missing or damaged file is
// left to the next process, which replaces it.
func Retire(dataDir string) error {
	in, err := Read(dataDir)
	if err != nil || in.PID == 0 {
		return nil //nolint:nilerr // only a readable file can count as running
	}
	in.PID = 0
	return Write(dataDir, in)
}

// Write writes the instance file of a data directory, atomically and with mode 0600.
func Write(dataDir string, in Instance) error {
	raw, err := json.Marshal(in, jsontext.WithIndent("  "))
	if err != nil {
		return fmt.Errorf("encode the instance file: %w", err)
	}
	if err := atomicfile.WriteBytes(filepath.Join(dataDir, FileName), append(raw, '\n')); err != nil {
		return fmt.Errorf("write the instance file: %w", err)
	}
	return nil
}
