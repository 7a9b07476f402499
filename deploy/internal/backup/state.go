package backup

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"muster/deploy/erasure"
	"muster/platform/broker"
	"muster/platform/bus"
	"muster/platform/service"
	"muster/schemas/event"
)

// FolderState has the erasures and accounts of a data directory.
type FolderState struct {
	Erasures erasure.Log
	Accounts Accounts
	// erasureTopic is the ID of the topic in a data directory, or zero. A restore preserves it.
	erasureTopic [16]byte
}

// IsSuccessorOf reports whether a data directory continues another one, or an archive of it: it has the same topic, and
// all of its erasures. Only then its erasures since the backup are complete.
func (s FolderState) IsSuccessorOf(earlier FolderState) (bool, error) {
	if s.erasureTopic == [16]byte{} || s.erasureTopic != earlier.erasureTopic {
		return false, nil
	}
	n, err := s.Erasures.MissingFrom(earlier.Erasures)
	return n == 0, err
}

// StateOf reads the erasures and accounts of a data directory from the log of its embedded broker. No instance may
// run on it. If the log has lost messages of other topics, StateOf reads a copy and leaves the directory unchanged.
// With partial, the log may have lost erasures too.
func StateOf(ctx context.Context, dir string, partial bool) (FolderState, error) {
	known, err := readKnown(ctx, dir, nil)
	lost, ok := errors.AsType[*broker.LossError](err)
	if !ok {
		return known, err
	}
	needed := func(topic string) bool { return slices.Contains(erasure.Topics(), topic) }
	if !partial && slices.ContainsFunc(lost.Topics, needed) {
		return known, err
	}
	copied, err := os.MkdirTemp("", "muster-restore-")
	if err != nil {
		return known, err
	}
	if err = copyTopics(filepath.Join(dir, "kafka"), filepath.Join(copied, "kafka"),
		append(erasure.Topics(), event.TopicAccount)); err == nil {
		known, err = readKnown(ctx, copied, func(topic string) bool { return partial || !needed(topic) })
	}
	return known, errors.Join(err, os.RemoveAll(copied))
}

func readKnown(ctx context.Context, dir string, acceptLoss func(topic string) bool) (known FolderState, err error) {
	err = withBroker(ctx, dir, acceptLoss, func(ctx context.Context, b *broker.Broker, kafka bus.Config) error {
		if known.Erasures, err = erasure.ReadLog(ctx, kafka); err != nil {
			return err
		}
		if known.erasureTopic, err = b.TopicID(event.TopicErasure); err != nil {
			return err
		}
		known.Accounts, err = accounts(ctx, kafka)
		return err
	})
	return known, err
}

// copyTopics copies a broker's directory with the messages of some topics.
func copyTopics(from, to string, topics []string) error {
	source, err := os.OpenRoot(from)
	if err != nil {
		return err
	}
	defer source.Close()
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	target, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer target.Close()
	return fs.WalkDir(source.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if parent, folder := path.Split(name); parent == "log/partitions/" {
				i := strings.LastIndexByte(folder, '-')
				if i < 0 || !slices.Contains(topics, folder[:i]) {
					return fs.SkipDir
				}
			}
			return target.MkdirAll(name, 0o700)
		}
		if !d.Type().IsRegular() {
			return nil
		}
		raw, err := source.ReadFile(name)
		if err != nil {
			return err
		}
		return target.WriteFile(name, raw, 0o600)
	})
}

// ImportErasures adds erasures to a data directory, unless it has them or newer ones of the same identifiers, and
// returns their number. No process may serve the directory. It returns suppress.ErrOtherKey if entries have the key
// of another root secret.
func ImportErasures(ctx context.Context, secret *service.RootSecret, dir string, log erasure.Log) (n int, err error) {
	if log.Len() == 0 {
		return 0, nil
	}
	key, err := erasure.SuppressionKey(secret)
	if err == nil {
		err = WithBroker(ctx, dir, func(ctx context.Context, kafka bus.Config) error {
			n, err = log.Publish(ctx, kafka, key)
			return err
		})
	}
	if err != nil {
		return 0, fmt.Errorf("import erasures: %w", err)
	}
	return n, nil
}

// WithBroker runs do with the embedded broker of a data directory.
func WithBroker(ctx context.Context, dir string, do func(context.Context, bus.Config) error) error {
	return withBroker(ctx, dir, nil,
		func(ctx context.Context, _ *broker.Broker, kafka bus.Config) error { return do(ctx, kafka) })
}

func withBroker(
	ctx context.Context, dir string, acceptLoss func(topic string) bool,
	do func(context.Context, *broker.Broker, bus.Config) error,
) error {
	const user = "muster"
	password := rand.Text() // the port is open to every user of the machine
	login, err := bus.SCRAM(user, password)
	if err != nil {
		return err
	}
	b, err := broker.Start(ctx, broker.Config{
		DataDir: filepath.Join(dir, "kafka"), AcceptLoss: acceptLoss,
		Users: []broker.User{{Mechanism: login.Name(), Name: user, Password: password}},
	})
	if err != nil {
		return err
	}
	ctx, end := b.WithFailure(ctx)
	defer end()
	return errors.Join(do(ctx, b, bus.Config{Brokers: b.Addrs(), SASL: login, ClientID: "muster backup"}), b.Close())
}
