package projector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/segmentio/kafka-go"

	"muster/platform/bus"
	ch "muster/platform/clickhouse"
	"muster/schemas/event"
	"muster/schemas/readmodel"
)

// rollKey is the key of the messages that end a log's active segment. They state
// nothing, and each replaces the one before.
const rollKey = "muster.roll"

// partsLifetime is the setting that says how long a table keeps parts that others
// have replaced, in seconds.
const partsLifetime = "old_parts_lifetime"

// tables lists the tables that hold what is of people, and those beside them.
func (e *Eraser) tables(ctx context.Context) ([]string, error) {
	beside, err := e.tablesBeside(ctx)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, table := range append(readmodel.Tables(), readmodel.AnswersTable, readmodel.DiscoveryTable, readmodel.DiscoveredTable, readmodel.ContextTable, readmodel.WebhookAttemptsTable) {
		out = append(append(out, table), beside[table]...)
	}
	return out, nil
}

// alter runs an ALTER TABLE on every table, and waits for it.
func (e *Eraser) alter(ctx context.Context, tables []string, what string) error {
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"mutations_sync": 2}))
	for _, name := range tables {
		statement := "ALTER TABLE " + e.layout.Local(name) + e.layout.OnCluster() + " " + what
		if err := e.deps.Conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("rewrite %s: %w", name, err)
		}
	}
	return nil
}

// rewrite takes what was deleted out of the tables: it rewrites the parts that hold
// deleted rows, and lets those that they replace go as soon as that is safe; settle
// says when they are gone. The compacted topics' active segments end, and an embedded broker compacts;
// others do within the time that the topics say.
func (e *Eraser) rewrite(ctx context.Context) error {
	tables, err := e.tables(ctx)
	if err != nil {
		return err
	}
	if err := e.alter(ctx, tables, "APPLY DELETED MASK"); err != nil {
		return err
	}
	if err := e.alter(ctx, tables, "MODIFY SETTING "+partsLifetime+" = "+strconv.Itoa(int(e.cfg.Replaced/time.Second))); err != nil {
		return err
	}
	return e.compact(ctx)
}

// compact ends the active segments and compacts what is embedded.
func (e *Eraser) compact(ctx context.Context) error {
	if err := e.roll(ctx); err != nil || e.deps.Compact == nil {
		return err
	}
	if err := e.deps.Compact(ctx); err != nil {
		return fmt.Errorf("compact the brokers' logs: %w", err)
	}
	return nil
}

// settle reports whether the parts that a rewriting replaced are gone; it then
// compacts the logs once more, now that tombstones have had their time, and looks
// for what should be gone: what is there goes, and is rewritten anew.
func (e *Eraser) settle(ctx context.Context) (bool, error) {
	tables, err := e.tables(ctx)
	if err != nil {
		return false, err
	}
	waiting, err := e.replacedParts(ctx, tables)
	if err != nil {
		return false, err
	}
	if len(waiting) > 0 {
		return false, e.wake(ctx, waiting)
	}
	if err := e.alter(ctx, tables, "RESET SETTING "+partsLifetime); err != nil {
		return false, err
	}
	if err := e.compact(ctx); err != nil {
		return false, err
	}
	var left *foundErased
	err = e.steadily(ctx, func() error {
		left, err = e.find(ctx)
		return err
	})
	if errors.Is(err, errLifted) {
		return false, nil // it is looked at again
	}
	if err != nil {
		return false, err
	}
	again, err := e.dropReplaced(ctx)
	if err != nil {
		return false, err
	}
	clear(e.rebuilt) // builds that were under way have ended: what is replaced from now on shows nothing of theirs
	if left.empty() {
		if again { // it is rewritten once more
			e.clean, e.dirty = nil, e.deps.Now().Add(-e.rest())
		}
		return !again, nil
	}
	// It came in meanwhile, as what was under way when the set changed: it goes
	// too, and is rewritten at once.
	e.deps.Logger.LogAttrs(ctx, slog.LevelInfo, "something of erased people has come in again", slog.Any("rows", left.counts()))
	if _, err := e.sweepSteadily(ctx); err != nil {
		return false, err
	}
	e.clean, e.dirty = nil, e.deps.Now().Add(-e.rest())
	return false, nil
}

// replacedParts lists those of the tables, by the names they have on a node, that still
// have parts on some node that the rewriting replaced. Merges make new ones all the time:
// those of before it count.
func (e *Eraser) replacedParts(ctx context.Context, tables []string) (waiting []string, err error) {
	var database string
	if err := e.deps.Conn.QueryRow(ctx, "SELECT currentDatabase()").Scan(&database); err != nil {
		return nil, fmt.Errorf("look for parts that were replaced: %w", err)
	}
	names := make([]string, len(tables)) // muster's own
	for i, name := range tables {
		names[i] = e.layout.Local(name)
	}
	row := e.deps.Conn.QueryRow(ctx, "SELECT groupUniqArray(table) FROM "+e.layout.OnAllNodes("system.parts")+
		" WHERE database = {database:String} AND NOT active AND toUnixTimestamp(modification_time) < {begin:Int64} AND table IN ('"+strings.Join(names, "', '")+"')",
		clickhouse.Named("database", database), clickhouse.Named("begin", e.clean.begin.Unix()))
	if err := row.Scan(&waiting); err != nil {
		return nil, fmt.Errorf("look for parts that were replaced: %w", err)
	}
	return waiting, nil
}

// wake has the engine look for replaced parts of tables now: by itself it looks every
// half minute (cleanup_delay_period), and more seldom where it found nothing. Letting the
// cleanup go on, which nobody has stopped, wakes it. An engine that refuses looks in its
// own time.
func (e *Eraser) wake(ctx context.Context, tables []string) error {
	for _, name := range tables {
		err := e.deps.Conn.Exec(ctx, "SYSTEM START CLEANUP"+e.layout.OnCluster()+" "+name)
		if code, refused := ch.CodeOf(err); refused {
			e.deps.Logger.LogAttrs(ctx, slog.LevelInfo, "replaced parts are waited for", slog.String("table", name), slog.String("error", code.String()))
			continue
		}
		if err != nil {
			return fmt.Errorf("have the parts of %s looked at: %w", name, err)
		}
	}
	return nil
}

// roll writes a message to every partition of the topics whose keys are identities.
// A log's last batch is never compacted, and it must not be one with tombstones.
func (e *Eraser) roll(ctx context.Context) error {
	var messages []kafka.Message
	for _, t := range event.Topics() {
		if !t.Personal {
			continue
		}
		bounds, err := bus.EndOffsets(ctx, e.cfg.Kafka, []string{t.Name})
		if err != nil {
			return fmt.Errorf("roll the topics: %w", err)
		}
		for _, b := range bounds {
			if b.End > b.First {
				messages = append(messages, kafka.Message{Topic: t.Name, Key: []byte(rollKey), WriterData: b.Partition})
			}
		}
	}
	if err := bus.WriteAll(ctx, e.writer, messages); err != nil {
		return fmt.Errorf("roll the topics: %w", err)
	}
	return nil
}

// inPartition has a writer put a message into the partition that its WriterData says, if any.
func inPartition(w *kafka.Writer) { w.Balancer = byNumber{w.Balancer} }

// byNumber is the balancer of inPartition: others go where another one says.
type byNumber struct{ others kafka.Balancer }

// Balance implements kafka.Balancer.
func (b byNumber) Balance(m kafka.Message, partitions ...int) int {
	if n, ok := m.WriterData.(int); ok {
		return n
	}
	return b.others.Balance(m, partitions...)
}
