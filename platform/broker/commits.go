package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/go-json-experiment/json"
)

// A state file of kfake is a row of entries: the length of the rest, its CRC-32C, and the
// rest, which is a version of two bytes and JSON.
const entryHeadBytes, entryVersionBytes = 8, 2

// nextEntry returns the rest of the first entry without its head, and what is behind
// it; not ok at the end, and where no whole entry begins.
func nextEntry(raw []byte) (entry, behind []byte, ok bool) {
	if len(raw) < entryHeadBytes {
		return nil, raw, false
	}
	length := int(binary.LittleEndian.Uint32(raw))
	if length < entryVersionBytes || length > len(raw)-entryHeadBytes {
		return nil, raw, false
	}
	entry, behind = raw[entryHeadBytes:entryHeadBytes+length], raw[entryHeadBytes+length:]
	if entryChecksum(entry) != binary.LittleEndian.Uint32(raw[4:]) {
		return nil, raw, false
	}
	return entry, behind, true
}

func appendEntry(dst, entry []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(entry))) //nolint:gosec // an entry that was read has this length, about
	dst = binary.LittleEndian.AppendUint32(dst, entryChecksum(entry))
	return append(dst, entry...)
}

func entryChecksum(entry []byte) uint32 {
	return crc32.Checksum(entry, crc32.MakeTable(crc32.Castagnoli))
}

// groupEntry is what kfake writes of a group's commit; other types have other members.
type groupEntry struct {
	Type       string  `json:"type"`
	Group      string  `json:"g"`
	Topic      string  `json:"t,omitzero"`
	Partition  int32   `json:"p,omitzero"`
	Offset     int64   `json:"o,omitzero"`
	Epoch      int32   `json:"e,omitzero"`
	Metadata   *string `json:"m,omitzero"`
	LastCommit *int64  `json:"lc,omitzero"`
}

// clampCommits takes the commits of groups back to the ends of their partitions. The
// system writes both at its own time: where the machine ended before it had written a
// partition's last messages, others would get their offsets, and a group whose commit is
// behind them would never handle those. Partitions that are not among the ends stay.
func clampCommits(dir string, ends map[topicPartition]int64, logger *slog.Logger) (err error) {
	path := filepath.Join(dir, "log", "groups.log")
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the commits: %w", err)
	}
	type key struct {
		group string
		topicPartition
	}
	commits := make(map[key]groupEntry)
	var version []byte
	for {
		entry, behind, ok := nextEntry(raw)
		if !ok {
			break
		}
		raw = behind
		var e groupEntry
		if json.Unmarshal(entry[entryVersionBytes:], &e) != nil {
			continue // kfake passes over it, too
		}
		version = entry[:entryVersionBytes]
		switch k := (key{e.Group, topicPartition{e.Topic, e.Partition}}); e.Type {
		case "commit":
			commits[k] = e
		case "delete":
			delete(commits, k)
		}
	}
	var clamped []byte
	var told []string
	for k, e := range commits {
		end, ok := ends[k.topicPartition]
		if !ok || e.Offset <= end {
			continue
		}
		told = append(told, fmt.Sprintf("%s %s/%d: %d to %d", e.Group, e.Topic, e.Partition, e.Offset, end))
		e.Offset = end
		text, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("take commits back: %w", err)
		}
		clamped = appendEntry(clamped, slices.Concat(version, text))
	}
	if len(told) == 0 {
		return nil
	}
	slices.Sort(told)
	logger.Warn("kafka broker: the log has lost its end, as when the machine loses power; groups that had read it go on at the end that it has now", slog.Any("commits", told))
	if err := appendFile(path, clamped); err != nil {
		return fmt.Errorf("take commits back: %w", err)
	}
	return nil
}
