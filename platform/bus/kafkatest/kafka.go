package kafkatest

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/scram"

	"muster/platform/freeport"
	"muster/platform/javatest"
)

// User and Password are the SASL account of a secure server, for PLAIN and SCRAM-SHA-512.
const (
	User     = "muster"
	Password = "a-password-for-tests"
)

// Config configures a server.
type Config struct {
	// Secure makes the listener SASL_SSL.
	Secure bool
	// ClientCertificates makes the listener SSL and requires client certificates.
	ClientCertificates bool
	// Properties are added to the server's properties or replace them.
	Properties map[string]string
	// ReadyTimeout limits the start. Default 90 s.
	ReadyTimeout time.Duration
}

// Kafka is a running server.
type Kafka struct {
	cfg       Config
	dir       string
	classpath string
	addr      string
	tls       *tls.Config // client configuration

	mu     sync.Mutex
	cmd    *exec.Cmd
	exited chan struct{} // closed when cmd has exited
	output *javatest.Tail
}

// Start fetches the jars if necessary, formats a storage directory, and returns when the server responds.
func Start(ctx context.Context, cfg Config) (*Kafka, error) {
	if cfg.ReadyTimeout == 0 {
		cfg.ReadyTimeout = 90 * time.Second
	}
	jars, err := fetchJars(ctx)
	if err != nil {
		return nil, fmt.Errorf("kafkatest: %w", err)
	}
	dir, err := os.MkdirTemp("", "kafkatest-")
	if err != nil {
		return nil, fmt.Errorf("kafkatest: %w", err)
	}
	k := &Kafka{cfg: cfg, dir: dir, classpath: filepath.Join(jars, "*")}
	if err := k.prepare(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("kafkatest: %w", err), os.RemoveAll(dir))
	}
	if err := k.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("kafkatest: %w", err), k.Close())
	}
	return k, nil
}

// Addr returns the bootstrap address, host:port.
func (k *Kafka) Addr() string { return k.addr }

// TLS returns the client TLS configuration, or nil for plaintext.
func (k *Kafka) TLS() *tls.Config { return k.tls }

// SASL returns the client SASL mechanism, or nil without authentication.
func (k *Kafka) SASL() sasl.Mechanism {
	if !k.cfg.Secure {
		return nil
	}
	m, err := scram.Mechanism(scram.SHA512, User, Password)
	if err != nil {
		return nil // impossible: the constants are valid for SCRAM
	}
	return m
}

// Restart stops the server gracefully and starts it with the same storage and port.
func (k *Kafka) Restart(ctx context.Context) error {
	if err := k.stop(syscall.SIGTERM); err != nil {
		return fmt.Errorf("kafkatest: restart: %w", err)
	}
	if err := k.start(ctx); err != nil {
		return fmt.Errorf("kafkatest: restart: %w", err)
	}
	return nil
}

// Kill ends the server with SIGKILL. Restart starts it again.
func (k *Kafka) Kill() error { return k.stop(syscall.SIGKILL) }

// Close stops the server and removes its storage.
func (k *Kafka) Close() error {
	return errors.Join(k.stop(syscall.SIGTERM), os.RemoveAll(k.dir))
}

func (k *Kafka) prepare(ctx context.Context) error {
	addrs, err := freeport.Addrs(ctx, 3)
	if err != nil {
		return err
	}
	k.addr = addrs[0]
	listeners := fmt.Sprintf("INTERNAL://%s,CONTROLLER://%s", addrs[0], addrs[1])
	props := map[string]string{
		"process.roles":                            "broker,controller",
		"node.id":                                  "1",
		"controller.quorum.voters":                 "1@" + addrs[1],
		"controller.listener.names":                "CONTROLLER",
		"inter.broker.listener.name":               "INTERNAL",
		"listener.security.protocol.map":           "CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT",
		"listeners":                                listeners,
		"log.dirs":                                 filepath.Join(k.dir, "log"),
		"num.partitions":                           "1",
		"auto.create.topics.enable":                "false",
		"offsets.topic.replication.factor":         "1",
		"offsets.topic.num.partitions":             "5",
		"transaction.state.log.replication.factor": "1",
		"transaction.state.log.min.isr":            "1",
		"default.replication.factor":               "1",
		"min.insync.replicas":                      "1",
		"message.max.bytes":                        "2097152",
		"group.initial.rebalance.delay.ms":         "0",
		"group.min.session.timeout.ms":             "1000",
	}
	if k.cfg.Secure || k.cfg.ClientCertificates {
		if err := k.secure(props, addrs[2]); err != nil {
			return err
		}
	}
	for key, v := range k.cfg.Properties {
		props[key] = v
	}
	var b bytes.Buffer
	for key, v := range props {
		fmt.Fprintf(&b, "%s=%s\n", key, strings.ReplaceAll(v, "\n", "\\n"))
	}
	if err := os.WriteFile(k.properties(), b.Bytes(), 0o600); err != nil {
		return err
	}
	args := []string{
		"-cp", k.classpath, "kafka.tools.StorageTool", "format", "-t", "bXVzdGVyLXRlc3QtY2x1c3Q", "-c", k.properties(),
	}
	if k.cfg.Secure {
		args = append(args, "--add-scram", fmt.Sprintf("SCRAM-SHA-512=[name=%s,password=%s]", User, Password))
	}
	//nolint:gosec // paths and constants of this package
	if out, err := exec.CommandContext(ctx, "java", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("format storage: %w\n%s", err, out)
	}
	return nil
}

func (k *Kafka) properties() string { return filepath.Join(k.dir, "server.properties") }

func (k *Kafka) start(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	// The server outlives ctx, but not this process.
	args := []string{
		"-Xms256m", "-Xmx768m", "-Dorg.apache.logging.log4j.level=WARN",
		"-cp", k.classpath, "kafka.Kafka", k.properties(),
	}
	cmd := exec.Command("java", args...) //nolint:gosec,noctx // paths and constants of this package; see above
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	k.output = &javatest.Tail{}
	cmd.Stdout, cmd.Stderr = k.output, k.output
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start java: %w", err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // returns an error after a signal
		close(exited)
	}()
	k.cmd, k.exited = cmd, exited
	return k.awaitReady(ctx)
}

// awaitReady requests metadata until it contains a broker.
func (k *Kafka) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, k.cfg.ReadyTimeout)
	defer cancel()
	for {
		tr := &kafka.Transport{TLS: k.TLS(), SASL: k.SASL(), DialTimeout: time.Second}
		client := &kafka.Client{Addr: kafka.TCP(k.addr), Timeout: 2 * time.Second, Transport: tr}
		res, err := client.Metadata(ctx, &kafka.MetadataRequest{})
		tr.CloseIdleConnections()
		if err == nil && len(res.Brokers) > 0 {
			return nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-k.exited:
			return fmt.Errorf("server exited while starting:\n%s", k.output)
		case <-ctx.Done():
			return fmt.Errorf("server is not ready: %w (last: %w)\n%s", ctx.Err(), err, k.output)
		}
	}
}

func (k *Kafka) stop(sig syscall.Signal) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cmd == nil {
		return nil
	}
	if err := k.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop server: %w", err)
	}
	select {
	case <-k.exited:
	case <-time.After(20 * time.Second):
		if err := k.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("stop server: %w", err)
		}
		<-k.exited
	}
	k.cmd = nil
	return nil
}
