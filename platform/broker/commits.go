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

// Entries of kfake's state files have a header of entryHeaderBytes (the length of the rest and its CRC-32C), a version
// of entryVersionBytes and JSON.
const entryHeaderBytes, entryVersionBytes = 8, 2

// nextEntry returns the first entry without its header, and the bytes after it. ok is false at the end and if the entry
// is truncated or its checksum is wrong.
func nextEntry(raw []byte) (entry, rest []byte, ok bool) {
	if len(raw) < entryHeaderBytes {
		return nil, raw, false
	}
	length := int(binary.LittleEndian.Uint32(raw))
	if length < entryVersionBytes || length > len(raw)-entryHeaderBytes {
		return nil, raw, false
	}
	entry, rest = raw[entryHeaderBytes:entryHeaderBytes+length], raw[entryHeaderBytes+length:]
	if entryChecksum(entry) != binary.LittleEndian.Uint32(raw[4:]) {
		return nil, raw, false
	}
	return entry, rest, true
}

func appendEntry(dst, entry []byte) []byte {
	//nolint:gosec // about as long as an entry that was read
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(entry)))
	dst = binary.LittleEndian.AppendUint32(dst, entryChecksum(entry))
	return append(dst, entry...)
}

func entryChecksum(entry []byte) uint32 {
	return crc32.Checksum(entry, crc32.MakeTable(crc32.Castagnoli))
}

// groupEntry is a group's entry in groups.log. Entries other than commits have other fields.
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

// clampCommits resets committed offsets that are past the end of their partition to that end. The operating system
// flushes the log and the commits independently: after a power loss the log may end before a commit, new messages would
// get the lost offsets, and the group would skip them. Partitions without an entry in ends are left unchanged.
func clampCommits(dir string, ends map[topicPartition]int64, logger *slog.Logger) (err error) {
	path := filepath.Join(dir, "log", "groups.log")
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read committed offsets: %w", err)
	}
	type key struct {
		group string
		topicPartition
	}
	commits := make(map[key]groupEntry)
	var version []byte
	for {
		entry, rest, ok := nextEntry(raw)
		if !ok {
			break
		}
		raw = rest
		var e groupEntry
		if json.Unmarshal(entry[entryVersionBytes:], &e) != nil {
			continue // kfake skips it as well
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
	var adjusted []string
	for k, e := range commits {
		end, ok := ends[k.topicPartition]
		if !ok || e.Offset <= end {
			continue
		}
		adjusted = append(adjusted, fmt.Sprintf("%s %s/%d: %d to %d", e.Group, e.Topic, e.Partition, e.Offset, end))
		e.Offset = end
		text, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("reset committed offsets: %w", err)
		}
		clamped = appendEntry(clamped, slices.Concat(version, text))
	}
	if len(adjusted) == 0 {
		return nil
	}
	slices.Sort(adjusted)
	logger.Warn("kafka broker: the end of the log is lost, committed offsets are reset to its new end",
		slog.Any("commits", adjusted))
	if err := appendFile(path, clamped); err != nil {
		return fmt.Errorf("reset committed offsets: %w", err)
	}
	return nil
}
