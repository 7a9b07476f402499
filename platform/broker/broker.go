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

// MaxMessageBytes is the largest record batch the broker accepts, in bytes,
// for topics that set no max.message.bytes of their own.
const MaxMessageBytes = 2 << 20

// ErrDataDirInUse says that another process has the data folder open.
var ErrDataDirInUse = errors.New("data folder is in use by another broker")

// User is a SASL user with all rights.
type User struct {
	Mechanism string // PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512
	Name      string
	Password  string
}

// Config says where the broker keeps its log and where it listens.
type Config struct {
	// DataDir is the folder of the log; it is created if missing. Required.
	DataDir string
	// Addr is host:port to listen on, port 0 for a free one. The host is also what
	// the broker tells its clients to connect to. Default 127.0.0.1:0.
	Addr string
	// Advertise is host:port that clients are told to connect to instead, when a
	// proxy stands between them and the broker.
	Advertise string
	// SyncWrites makes every acknowledged batch survive a crash of the machine too.
	SyncWrites bool
	// TLS, when set, is the server's side of TLS on every connection.
	TLS *tls.Config
	// Users, when set, makes SASL mandatory. They are all users there are, whoever there
	// was when the log was written.
	Users []User
	// AcceptLoss has the broker start although messages of a topic are lost which an orderly stop had saved. Without it
	// Start returns a LossError.
	AcceptLoss func(topic string) bool
	// MinSessionTimeout is the shortest consumer group session a client may ask for.
	// Default 1 s.
	MinSessionTimeout time.Duration
	// Logger receives the broker's warnings and errors; nil: nobody does.
	Logger *slog.Logger
}

// Broker is a running broker.
type Broker struct {
	cluster  *kfake.Cluster
	listener net.Listener
	lock     *os.File
	gate     *gate
	failure  *failure
	logger   *slog.Logger
	dir      string
	free     func(dir string) (int64, error) // bytes of its disk

	compacting sync.Mutex // one compaction, or retention, at a time

	closeOnce sync.Once
	closeErr  error
}

// Start opens the data folder, replays it and then listens.
// ctx bounds the start only; the broker runs until Close.
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
	b := &Broker{lock: lock, gate: newGate(failed), failure: failed, logger: cfg.Logger, dir: cfg.DataDir, free: freeBytes}
	b.gate.mechanisms = cfg.mechanisms()
	b.gate.vetter.compacted = func(topic string) (bool, error) {
		return ask(b, func() bool { return b.compacted(topic) })
	}
	b.gate.vetter.partition = func(tp topicPartition) (*kfake.PartitionInfo, error) {
		return ask(b, func() *kfake.PartitionInfo { return b.cluster.PartitionInfo(tp.topic, tp.partition) })
	}
	listen := func(network, addr string) (net.Listener, error) {
		// kfake always asks for 127.0.0.1; only its port is of interest.
		_, port, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		return b.listen(ctx, cfg, network, net.JoinHostPort(host, port))
	}
	opts := append(cfg.options(), kfake.Ports(port), kfake.ListenFn(listen), kfake.WithLogger(&logAdapter{logger: cfg.Logger, failure: failed}))
	if err := b.run(opts); err != nil {
		b.gate.shut()
		return nil, errors.Join(fmt.Errorf("broker: start: %w", err), b.closeListener(), unlockDir(lock))
	}
	debug.FreeOSMemory() // checking the log leaves as much garbage as the log is large
	b.gate.open()
	go func() { // a failed broker refuses its clients, whenever its owner gets round to closing it
		select {
		case <-b.Failed():
			_ = b.leave()
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

// mechanisms returns the SASL mechanisms of the users.
func (cfg *Config) mechanisms() []string {
	var out []string
	for _, u := range cfg.Users {
		out = append(out, u.Mechanism)
	}
	return slices.Compact(slices.Sorted(slices.Values(out)))
}

// options say how kfake keeps the log, and who may use it.
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
			// A stopped installation must find its committed offsets, however long it rested.
			"offsets.retention.minutes": strconv.FormatInt(int64((10*365*24*time.Hour)/time.Minute), 10),
			"message.max.bytes":         strconv.Itoa(MaxMessageBytes),
			// Only topics that set their retention have any.
			"log.retention.ms": "-1",
			// Start reads each segment whole to check it.
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

// listen makes the listener, whose connections go through the gate. kfake listens first, and then reads its log and
// changes it: a port that is taken changes nothing.
func (b *Broker) listen(ctx context.Context, cfg Config, network, addr string) (net.Listener, error) {
	ln, err := (&net.ListenConfig{}).Listen(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(markOpen(cfg.DataDir), forgetUsers(cfg.DataDir)); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	if cfg.TLS != nil { // here, not by kfake: the gate reads what clients send
		ln = tls.NewListener(ln, cfg.TLS)
	}
	b.listener = &gatedListener{Listener: ln, gate: b.gate, logger: cfg.Logger, advertise: advertised(cfg.Advertise)}
	return b.listener, nil
}

// run starts kfake, which may fail for good while it does.
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

// advertised is an address as kfake, which tells its clients a listener's,
// wants it.
type advertised string

func (advertised) Network() string  { return "tcp" }
func (a advertised) String() string { return string(a) }

// Addrs returns the addresses to bootstrap from, host:port.
func (b *Broker) Addrs() []string { return []string{b.listener.Addr().String()} }

// TopicID is the ID of a topic, made with it and kept with its log; zero when there is none.
func (b *Broker) TopicID(topic string) (id [16]byte, err error) {
	info, err := ask(b, func() *kfake.TopicInfo { return b.cluster.TopicInfo(topic) })
	if err != nil || info == nil {
		return id, err
	}
	return info.TopicID, nil
}

// Cluster is the broker's own control surface: fault injection for tests.
func (b *Broker) Cluster() *kfake.Cluster { return b.cluster }

// Close stops listening, waits for a compaction, answers the offset commits that have
// arrived, flushes and syncs the log, and releases the data folder. It is idempotent. It returns
// Err of a broker that has failed, or that does because it cannot write its files:
// they are then as a kill would have left them.
func (b *Broker) Close() error {
	b.closeOnce.Do(func() {
		b.gate.shut()
		if b.Err() == nil {
			closed := make(chan struct{})
			go func() {
				b.compacting.Lock() // a compaction needs kfake, and the folder, to its end
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
		if err := errors.Join(marked, b.leave(), unlockDir(b.lock)); err != nil {
			b.closeErr = errors.Join(b.closeErr, fmt.Errorf("broker: close: %w", err))
		}
	})
	return b.closeErr
}

// leave ends everything that clients have of the broker.
func (b *Broker) leave() error {
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

// lockDir takes the folder for this process; the kernel releases it if the
// process dies.
func lockDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create data folder: %w", err)
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
		return fmt.Errorf("release data folder: %w", err)
	}
	return nil
}
