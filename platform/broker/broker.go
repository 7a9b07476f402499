package broker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"golang.org/x/sys/unix"
)

// MaxMessageBytes is the largest record batch the broker accepts, in bytes, for topics without max.message.bytes.
const MaxMessageBytes = 2 << 20

// ErrDataDirInUse means that another process has locked the data directory.
var ErrDataDirInUse = errors.New("data directory is in use by another broker")

// User is a SASL user with all rights.
type User struct {
	Mechanism string // PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512
	Name      string
	Password  string
}

// Config configures a Broker.
type Config struct {
	// DataDir is the directory of the log; it is created if missing. Required.
	DataDir string
	// Addr is the host:port to listen on; port 0 selects a free port. The broker advertises the same host to its
	// clients. Default 127.0.0.1:0.
	Addr string
	// Advertise is the host:port to advertise instead of Addr, for a broker behind a proxy.
	Advertise string
	// SyncWrites calls fsync for each batch, so that acknowledged batches also survive a crash of the machine.
	SyncWrites bool
	// TLS, if set, is the server configuration of all connections.
	TLS *tls.Config
	// Users, if set, makes SASL mandatory. They replace the users that are stored in the log directory.
	Users []User
	// AcceptLoss reports whether to start although messages of topic are missing that were there when the broker was
	// last closed. If it is nil or returns false, Start returns a LossError.
	AcceptLoss func(topic string) bool
	// MinSessionTimeout is the shortest session timeout of a consumer group member. Default 1 s.
	MinSessionTimeout time.Duration
	// Logger receives warnings and errors. Nil discards them.
	Logger *slog.Logger
}

// Broker is an embedded Kafka broker. Its methods may be called concurrently.
type Broker struct {
	cluster  *kfake.Cluster
	listener net.Listener
	lock     *os.File
	gate     *gate
	failure  *failure
	logger   *slog.Logger
	dir      string
	// free returns the free bytes of the file system of dir.
	free func(dir string) (int64, error)

	// compacting serializes compaction and retention.
	compacting sync.Mutex

	closeOnce sync.Once
	closeErr  error
}

// Start locks the data directory, replays the log and listens.
// ctx bounds only the start; the broker runs until Close.
func Start(ctx context.Context, cfg Config) (*Broker, error) {
	if cfg.DataDir == "" {
		return nil, errors.New("broker: start: DataDir is empty")
	}
	if cfg.Addr == "" {
		cfg.Addr = "127.0.0.1:0"
	}
	if cfg.MinSessionTimeout == 0 {
		cfg.MinSessionTimeout = time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	host, port, err := splitAddr(cfg.Addr)
	if err != nil {
		return nil, fmt.Errorf("broker: start: address %q: %w", cfg.Addr, err)
	}
	lock, err := lockDir(cfg.DataDir)
	if err != nil {
		return nil, fmt.Errorf("broker: start: %w", err)
	}
	if err := prepareLog(cfg.DataDir, cfg.AcceptLoss, cfg.Logger); err != nil {
		return nil, errors.Join(fmt.Errorf("broker: start: %w", err), unlockDir(lock))
	}
	failed := newFailure()
	b := &Broker{
		lock: lock, gate: newGate(failed), failure: failed, logger: cfg.Logger, dir: cfg.DataDir, free: freeDiskBytes,
	}
	b.gate.mechanisms = cfg.mechanisms()
	b.gate.validator.compacted = func(topic string) (bool, error) {
		return callCluster(b, func() bool { return b.compacted(topic) })
	}
	b.gate.validator.partition = func(tp topicPartition) (*kfake.PartitionInfo, error) {
		return callCluster(b, func() *kfake.PartitionInfo { return b.cluster.PartitionInfo(tp.topic, tp.partition) })
	}
	listen := func(network, addr string) (net.Listener, error) {
		// kfake always passes 127.0.0.1; only its port matters.
		_, port, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		return b.listen(ctx, cfg, network, net.JoinHostPort(host, port))
	}
	opts := append(cfg.options(), kfake.Ports(port), kfake.ListenFn(listen),
		kfake.WithLogger(&logAdapter{logger: cfg.Logger, failure: failed}))
	if err := b.run(opts); err != nil {
		b.gate.shut()
		return nil, errors.Join(fmt.Errorf("broker: start: %w", err), b.closeListener(), unlockDir(lock))
	}
	// Checking the log allocates as much as the log's size.
	debug.FreeOSMemory()
	b.gate.open()
	// A failed broker disconnects its clients without waiting for its owner to close it.
	go func() {
		select {
		case <-b.Failed():
			_ = b.disconnectClients()
		case <-b.gate.shutting:
		}
	}()
	return b, nil
}

func splitAddr(addr string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, err
	}
	n, err := strconv.ParseUint(text, 10, 16)
	return host, int(n), err
}

// mechanisms returns the distinct SASL mechanisms of the users, sorted.
func (cfg *Config) mechanisms() []string {
	var out []string
	for _, u := range cfg.Users {
		out = append(out, u.Mechanism)
	}
	return slices.Compact(slices.Sorted(slices.Values(out)))
}

// options returns the options of kfake: storage, limits and users.
func (cfg *Config) options() []kfake.Opt {
	opts := []kfake.Opt{
		kfake.NumBrokers(1),
		kfake.DataDir(filepath.Join(cfg.DataDir, "log")),
		kfake.ClusterID("muster"),
		kfake.MaxVersions(versions()),
		kfake.DefaultNumPartitions(1),
		kfake.GroupMinSessionTimeout(cfg.MinSessionTimeout),
		kfake.BrokerConfigs(map[string]string{
			// A century: the cleaner's ticker must never fire (see the package comment).
			"log.cleaner.backoff.ms": strconv.FormatInt((100 * 365 * 24 * time.Hour).Milliseconds(), 10),
			// Committed offsets must outlast any downtime: ten years.
			"offsets.retention.minutes": strconv.FormatInt(int64((10*365*24*time.Hour)/time.Minute), 10),
			"message.max.bytes":         strconv.Itoa(MaxMessageBytes),
			// No retention unless the topic sets it.
			"log.retention.ms": "-1",
			// Start reads whole segments to check them.
			"log.segment.bytes":            strconv.Itoa(16 << 20),
			"default.replication.factor":   "1",
			"group.min.session.timeout.ms": strconv.FormatInt(cfg.MinSessionTimeout.Milliseconds(), 10),
		}),
	}
	if cfg.SyncWrites {
		opts = append(opts, kfake.SyncWrites())
	}
	if len(cfg.Users) > 0 {
		opts = append(opts, kfake.EnableSASL())
		for _, u := range cfg.Users {
			opts = append(opts, kfake.Superuser(u.Mechanism, u.Name, u.Password))
		}
	}
	return opts
}

// listen opens the listener, whose connections pass the gate. kfake listens before it reads or changes its log, so a
// port that is in use changes nothing on disk.
func (b *Broker) listen(ctx context.Context, cfg Config, network, addr string) (net.Listener, error) {
	ln, err := (&net.ListenConfig{}).Listen(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(markOpen(cfg.DataDir), removeStoredUsers(cfg.DataDir)); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	// The gate reads the requests, so TLS ends before kfake.
	if cfg.TLS != nil {
		ln = tls.NewListener(ln, cfg.TLS)
	}
	b.listener = &gatedListener{Listener: ln, gate: b.gate, logger: cfg.Logger, advertise: advertised(cfg.Advertise)}
	return b.listener, nil
}

// run starts kfake. It returns Err if the broker fails during the start.
func (b *Broker) run(opts []kfake.Opt) error {
	started := make(chan error, 1)
	go func() {
		cluster, err := kfake.NewCluster(opts...)
		b.cluster = cluster
		started <- err
	}()
	select {
	case err := <-started:
		return err
	case <-b.Failed():
		return b.Err()
	}
}

// advertised is a host:port as a net.Addr: kfake advertises the address of its listener.
type advertised string

func (advertised) Network() string  { return "tcp" }
func (a advertised) String() string { return string(a) }

// Addrs returns the bootstrap addresses, host:port.
func (b *Broker) Addrs() []string { return []string{b.listener.Addr().String()} }

// TopicID returns the ID of a topic, which is stored in the log; zero if the topic does not exist.
func (b *Broker) TopicID(topic string) (id [16]byte, err error) {
	info, err := callCluster(b, func() *kfake.TopicInfo { return b.cluster.TopicInfo(topic) })
	if err != nil || info == nil {
		return id, err
	}
	return info.TopicID, nil
}

// Cluster returns the underlying cluster, for fault injection in tests.
func (b *Broker) Cluster() *kfake.Cluster { return b.cluster }

// Close stops listening, waits for a running compaction, answers the offset commits that have arrived, flushes and
// syncs the log and unlocks the data directory. It is idempotent. It returns Err if the broker has failed or fails
// while it writes its files; the files are then as after a kill.
func (b *Broker) Close() error {
	b.closeOnce.Do(func() {
		b.gate.shut()
		if b.Err() == nil {
			closed := make(chan struct{})
			go func() {
				// A compaction needs kfake and the directory until it ends.
				b.compacting.Lock()
				defer b.compacting.Unlock()
				if b.Err() == nil {
					b.cluster.Close()
					close(closed)
				}
			}()
			select {
			case <-closed:
			case <-b.Failed():
			}
		}
		b.closeErr = b.Err()
		var marked error
		if b.closeErr == nil {
			marked = markClosed(b.dir)
		}
		if err := errors.Join(marked, b.disconnectClients(), unlockDir(b.lock)); err != nil {
			b.closeErr = errors.Join(b.closeErr, fmt.Errorf("broker: close: %w", err))
		}
	})
	return b.closeErr
}

// disconnectClients stops listening and closes all connections.
func (b *Broker) disconnectClients() error {
	b.gate.shut()
	err := b.closeListener()
	b.gate.closeConns()
	return err
}

func (b *Broker) closeListener() error {
	if b.listener == nil {
		return nil
	}
	if err := b.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("stop listening: %w", err)
	}
	return nil
}

// lockDir creates and locks the directory. The kernel unlocks it if the process dies.
func lockDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create data directory: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "LOCK"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock file: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = ErrDataDirInUse
		}
		return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), f.Close())
	}
	return f, nil
}

func unlockDir(f *os.File) error {
	if err := f.Close(); err != nil && !errors.Is(err, fs.ErrClosed) {
		return fmt.Errorf("unlock data directory: %w", err)
	}
	return nil
}
