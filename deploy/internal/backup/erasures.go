package backup

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"

	"muster/platform/broker"
	"muster/platform/bus"
	"muster/platform/service"
	"muster/schemas/event"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

// message is a message of one of the two erasure topics.
type message struct {
	Topic string `json:"topic"`
	Key   []byte `json:"key"`
	Value []byte `json:"value"`
}

func erasureTopics() []string { return []string{event.TopicErasure, event.TopicErasureRequest} }

// maxLine is the maximum length of a line in an erasures file, in bytes.
const maxLine = 4 << 20

// WriteMessages writes messages in the format of [Erasures.Write].
func WriteMessages(w io.Writer, messages []kafka.Message) error {
	out := make([]message, len(messages))
	for i, m := range messages {
		out[i] = message{Topic: m.Topic, Key: m.Key, Value: m.Value}
	}
	return write(w, out)
}

func write(w io.Writer, messages []message) error {
	out := bufio.NewWriter(w)
	for _, m := range messages {
		raw, err := json.Marshal(m)
		if err != nil {
			return fmt.Errorf("write the erasures: %w", err)
		}
		if _, err := out.Write(append(raw, '\n')); err != nil {
			return fmt.Errorf("write the erasures: %w", err)
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write the erasures: %w", err)
	}
	return nil
}

// ReadErasures reads the format of [Erasures.Write].
func ReadErasures(r io.Reader) (Erasures, error) {
	var out Erasures
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for number := 1; lines.Scan(); number++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var l message
		if err := json.Unmarshal(lines.Bytes(), &l, json.RejectUnknownMembers(true)); err != nil {
			return out, fmt.Errorf("read the erasures: line %d: %w", number, err)
		}
		if l.Topic != event.TopicErasure && l.Topic != event.TopicErasureRequest {
			return out, fmt.Errorf("read the erasures: line %d: unsupported topic %q", number, l.Topic)
		}
		out.messages = append(out.messages, l)
	}
	if err := lines.Err(); err != nil {
		return out, fmt.Errorf("read the erasures: %w", err)
	}
	return out, nil
}

// ErasuresAt reads the erasures of an instance.
func ErasuresAt(ctx context.Context, kafka bus.Config) (Erasures, error) { return scan(ctx, kafka) }

// FolderState has the erasures and accounts of a data directory.
type FolderState struct {
	Erasures Erasures
	Accounts Accounts
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
	needed := func(topic string) bool { return slices.Contains(erasureTopics(), topic) }
	if !partial && slices.ContainsFunc(lost.Topics, needed) {
		return known, err
	}
	copied, err := os.MkdirTemp("", "muster-restore-")
	if err != nil {
		return known, err
	}
	if err = copyTopics(filepath.Join(dir, "kafka"), filepath.Join(copied, "kafka"),
		append(erasureTopics(), event.TopicAccount)); err == nil {
		known, err = readKnown(ctx, copied, func(topic string) bool { return partial || !needed(topic) })
	}
	return known, errors.Join(err, os.RemoveAll(copied))
}

func readKnown(ctx context.Context, dir string, acceptLoss func(topic string) bool) (known FolderState, err error) {
	err = withBroker(ctx, dir, acceptLoss, func(ctx context.Context, b *broker.Broker, kafka bus.Config) error {
		if known.Erasures, err = scan(ctx, kafka); err != nil {
			return err
		}
		if known.Erasures.log, err = b.TopicID(event.TopicErasure); err != nil {
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

// Erasures are the messages of the erasure topics.
type Erasures struct {
	messages []message
	// removed are the keys of entries that were taken out.
	// removed are the keys of deleted entries.
	removed map[string]bool
	// log is the ID of the topic in a data directory, or zero. A restore preserves it.
	log [16]byte
}

// Len returns the number of lines that Write writes.
func (e Erasures) Len() int { return len(e.messages) }

// Write writes the erasures as lines of JSON, with keyed hashes and without identifiers.
func (e Erasures) Write(w io.Writer) error { return write(w, e.messages) }

// IsSuccessorOf reports whether a data directory continues another one, or an archive of it: it has the same log,
// and all of its erasures. Only then its erasures since the backup are complete.
func (e Erasures) IsSuccessorOf(earlier Erasures) (bool, error) {
	if e.log == [16]byte{} || e.log != earlier.log {
		return false, nil
	}
	n, err := e.MissingFrom(earlier)
	return n == 0, err
}

// MissingFrom returns the number of entries of others that are neither in e, nor in a newer version, nor deleted.
func (e Erasures) MissingFrom(others Erasures) (n int, err error) {
	here, err := e.versions()
	if err != nil {
		return 0, err
	}
	there, err := others.versions()
	if err != nil {
		return 0, err
	}
	for key, version := range there {
		if known, ok := here[key]; (!ok || known < version) && !e.removed[key] {
			n++
		}
	}
	return n, nil
}

// versions returns the versions of the newest entries by key.
func (e Erasures) versions() (map[string]record.Version, error) {
	newest := make(map[string]record.Version)
	for _, l := range e.messages {
		if l.Topic != event.TopicErasure {
			continue
		}
		var entry suppress.Entry
		err := json.Unmarshal(l.Value, &entry)
		if err == nil {
			var version record.Version
			version, err = record.ParseVersion(entry.RequestedAt)
			newest[string(l.Key)] = max(newest[string(l.Key)], version)
		}
		if err != nil {
			return nil, fmt.Errorf("read the erasures: entry %s: %w", l.Key, err)
		}
	}
	return newest, nil
}

// ImportErasures adds erasures to a data directory, unless it has them or newer ones of the same identifiers, and
// returns their number. No process may serve the directory. It returns suppress.ErrOtherKey if entries have the key
// of another root secret.
func (e Erasures) ImportErasures(ctx context.Context, secret *service.RootSecret, dir string) (n int, err error) {
	if len(e.messages) == 0 {
		return 0, nil
	}
	material, err := secret.Key(suppress.KeyName, suppress.KeySize)
	if err != nil {
		return 0, fmt.Errorf("import erasures: %w", err)
	}
	key, err := suppress.NewKey(material)
	if err != nil {
		return 0, fmt.Errorf("import erasures: %w", err)
	}
	err = WithBroker(ctx, dir, func(ctx context.Context, kafka bus.Config) error {
		there, err := scan(ctx, kafka)
		if err != nil {
			return err
		}
		missing, err := e.missing(key, there.messages)
		if err != nil || len(missing) == 0 {
			return err
		}
		if err := ensure(ctx, kafka); err != nil {
			return err
		}
		w := bus.NewWriter(kafka)
		for _, m := range missing {
			if m.Topic == event.TopicErasure {
				n++
			}
		}
		return errors.Join(bus.WriteAll(ctx, w, missing), w.Close())
	})
	if err != nil {
		return 0, fmt.Errorf("import erasures: %w", err)
	}
	return n, nil
}

// missing returns the messages to add to those in there. Entries in there with another key are kept: an archive may be
// from before they were removed, and they suppress no one.
func (e Erasures) missing(key *suppress.Key, there []message) (out []kafka.Message, err error) {
	set, requests := suppress.NewSet(key), map[string]bool{}
	for _, l := range there {
		if l.Topic == event.TopicErasureRequest {
			requests[string(l.Key)+"\x00"+string(l.Value)] = true
			continue
		}
		if err := set.Apply(l.Key, l.Value); err != nil && !errors.Is(err, suppress.ErrOtherKey) {
			return nil, err
		}
	}
	for _, l := range e.messages {
		if l.Topic == event.TopicErasureRequest {
			if !requests[string(l.Key)+"\x00"+string(l.Value)] {
				out = append(out, kafka.Message{Topic: l.Topic, Key: l.Key, Value: l.Value})
			}
			continue
		}
		before, _ := set.Changes()
		if err := set.Apply(l.Key, l.Value); err != nil {
			return nil, err
		}
		if after, _ := set.Changes(); after != before {
			out = append(out, kafka.Message{Topic: l.Topic, Key: l.Key, Value: l.Value})
		}
	}
	return out, nil
}

// scan reads both topics. The result has neither deleted entries nor the owner entry.
func scan(ctx context.Context, cfg bus.Config) (Erasures, error) {
	var out []message
	removed := make(map[string]bool)
	err := bus.Scan(ctx, cfg, erasureTopics(), func(m kafka.Message) error {
		entry := m.Topic == event.TopicErasure
		switch {
		case m.Value == nil && entry:
			removed[string(m.Key)] = true
		case m.Value == nil || entry && string(m.Key) == suppress.OwnerKey:
		default:
			if entry {
				delete(removed, string(m.Key))
			}
			out = append(out, message{Topic: m.Topic, Key: bytes.Clone(m.Key), Value: bytes.Clone(m.Value)})
		}
		return nil
	})
	if err != nil {
		return Erasures{}, fmt.Errorf("read the erasures: %w", err)
	}
	out = slices.DeleteFunc(out,
		func(l message) bool { return l.Topic == event.TopicErasure && removed[string(l.Key)] })
	return Erasures{messages: out, removed: removed}, nil
}

func ensure(ctx context.Context, cfg bus.Config) error {
	var topics []bus.Topic
	for _, t := range event.Topics() {
		if t.Name == event.TopicErasure || t.Name == event.TopicErasureRequest {
			topics = append(topics, bus.Topic{Name: t.Name, Partitions: t.Partitions, Config: t.Config()})
		}
	}
	err := bus.EnsureTopics(ctx, cfg, topics)
	if _, different := errors.AsType[*bus.MismatchError](err); different {
		return nil
	}
	return err
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
