package instance

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"muster/platform/bus"
)

// FileName is the name of the file that describes an instance, in its data
// folder.
const FileName = "standalone.json"

// Instance is what one needs to speak to a running muster. The file that holds
// it carries secrets and has mode 0600.
type Instance struct {
	// BaseURL is where the HTTP API answers, without the /v1.
	BaseURL string `json:"base_url"`
	// APIKey belongs to an organization on the development plan.
	APIKey string `json:"api_key"`
	// OperatorToken authorizes HTTP push and the operators' endpoints.
	OperatorToken string `json:"operator_token"`
	// IngestURL is where HTTP push answers.
	IngestURL string `json:"ingest_url"`
	// AdminURL is where metrics, health and readiness answer.
	AdminURL string `json:"admin_url"`
	// Kafka are the brokers' addresses, comma-separated.
	Kafka string `json:"kafka"`
	// KafkaUser and KafkaPassword are of the embedded broker, which wants them with
	// SCRAM-SHA-256; empty with brokers elsewhere.
	KafkaUser     string `json:"kafka_user,omitempty"`
	KafkaPassword string `json:"kafka_password,omitempty"`
	// ClickHouseURL is the engine's HTTP interface, with the service user's
	// credentials and the read models' database.
	ClickHouseURL string `json:"clickhouse_url"`
	// PID is the process that serves all this.
	PID int `json:"pid"`
}

// ErrNotRunning says that no instance serves a data folder.
var ErrNotRunning = errors.New("no running muster")

// Read returns the description that the last `muster up` on a data folder
// wrote, whether it still runs or not. It wraps fs.ErrNotExist when there is
// none.
func Read(dataDir string) (Instance, error) {
	var in Instance
	path := filepath.Join(dataDir, FileName)
	raw, err := os.ReadFile(path)
	if err != nil {
		return in, fmt.Errorf("read the instance's description: %w", err)
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return in, fmt.Errorf("read the instance's description %s: %w", path, err)
	}
	return in, nil
}

// Find returns how to reach the instance of a data folder. The variables
// KAFKA_BROKERS, CLICKHOUSE_DSN, MUSTER_ADMIN_URL, MUSTER_BASE_URL and
// MUSTER_OPERATOR_TOKEN of the environment override the file. It fails with
// ErrNotRunning when neither the file of a living process nor the environment
// names the brokers and the engine.
func Find(dataDir string, getenv func(string) string) (Instance, error) {
	in, err := Read(dataDir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		in = Instance{}
	case err != nil:
		return in, err
	case !Alive(in.PID):
		in = Instance{}
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
	if strings.TrimSpace(getenv("KAFKA_BROKERS")) != "" {
		in.KafkaUser, in.KafkaPassword = "", "" // others' are not told them
	}
	if in.Kafka == "" || in.ClickHouseURL == "" {
		return in, fmt.Errorf("%w at data folder %q: start one with `muster up --data-dir %s`, "+
			"name another folder with --data-dir, or set KAFKA_BROKERS and CLICKHOUSE_DSN", ErrNotRunning, dataDir, dataDir)
	}
	return in, nil
}

// Bus returns how to reach the instance's brokers. Of brokers elsewhere the instance knows
// the addresses alone: env is what the environment says of the rest.
func (in Instance) Bus(env bus.Config) (bus.Config, error) {
	env.Brokers = strings.Split(in.Kafka, ",")
	if in.KafkaUser == "" {
		return env, nil
	}
	env.TLS = nil // the embedded broker has none
	var err error
	if env.SASL, err = bus.SCRAM(in.KafkaUser, in.KafkaPassword); err != nil {
		return env, fmt.Errorf("reach the instance's broker: %w", err)
	}
	return env, nil
}

// Write stores an instance's description in its data folder, atomically and
// readable by its owner only.
func Write(dataDir string, in Instance) error {
	raw, err := json.Marshal(in, jsontext.WithIndent("  "))
	if err != nil {
		return fmt.Errorf("encode the instance's description: %w", err)
	}
	tmp, err := os.CreateTemp(dataDir, FileName+".*")
	if err != nil {
		return fmt.Errorf("write the instance's description: %w", err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	_, err = tmp.Write(append(raw, '\n'))
	if err := errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return fmt.Errorf("write the instance's description: %w", err)
	}
	if err := os.Rename(tmp.Name(), filepath.Join(dataDir, FileName)); err != nil {
		return fmt.Errorf("write the instance's description: %w", err)
	}
	return nil
}

// Alive says whether a process of this id runs.
func Alive(pid int) bool {
	if pid <= 0 {
		return false
	}
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}
