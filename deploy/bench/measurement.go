package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// measurement is what a number of callers saw.
type measurement struct {
	calls        []time.Duration
	asked, found int
	elapsed      time.Duration
	// engine, bench and platform are the processor time that the ClickHouse engine, this
	// program, with the query-api in it, and muster's process, with broker and projector
	// in it, took; rss is the engine's resident memory.
	engine, bench, platform time.Duration
	rss                     int64
}

func (m *measurement) add(o measurement) {
	m.calls = append(m.calls, o.calls...)
	m.asked += o.asked
	m.found += o.found
}

// addTurn adds a measurement of the same that came later.
func (m *measurement) addTurn(o measurement) {
	m.add(o)
	m.elapsed += o.elapsed
	m.engine += o.engine
	m.bench += o.bench
	m.platform += o.platform
	m.rss = o.rss
}

// rate is keys a second.
func (m measurement) rate() float64 { return float64(m.asked) / m.elapsed.Seconds() }

func (m measurement) String() string {
	slices.Sort(m.calls)
	return fmt.Sprintf("%7.0f keys/s  p50 %7.2f ms  p99 %7.2f ms  CPU s: engine %.1f, API and callers %.1f  engine %d MB",
		m.rate(), ms(quantile(m.calls, 0.5)), ms(quantile(m.calls, 0.99)), m.engine.Seconds(), m.bench.Seconds(), m.rss>>20)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// quantile of sorted durations, by the nearest rank.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// usage is what processes have used so far.
type usage struct {
	engine, bench, platform time.Duration
	rss                     int64
}

func (b *bench) cpu() (usage, error) {
	engine, err := b.enginePID()
	if err != nil {
		return usage{}, err
	}
	var u usage
	if u.engine, u.rss, err = process(engine); err != nil {
		return usage{}, err
	}
	if u.platform, _, err = process(b.process.Process.Pid); err != nil {
		return usage{}, err
	}
	u.bench, _, err = process(os.Getpid())
	return u, err
}

// enginePID is the one child process of muster.
func (b *bench) enginePID() (int, error) {
	pid := strconv.Itoa(b.process.Process.Pid)
	lists, err := filepath.Glob(filepath.Join("/proc", pid, "task", "*", "children"))
	if err != nil {
		return 0, fmt.Errorf("find the engine's process: %w", err)
	}
	for _, path := range lists {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue // the thread is gone
		}
		for _, child := range strings.Fields(string(raw)) {
			return strconv.Atoi(child)
		}
	}
	return 0, fmt.Errorf("process %s has no child: is CLICKHOUSE_DSN set?", pid)
}

// process returns the processor time and the resident memory of a process
// (proc(5), stat: utime, stime and rss are fields 14, 15 and 24).
func process(pid int) (cpu time.Duration, rss int64, err error) {
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, 0, fmt.Errorf("read what a process uses (Linux only): %w", err)
	}
	// The name, in parentheses, may hold anything; fields are counted behind it.
	text := string(raw)
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	const utime, stime, resident = 14 - 3, 15 - 3, 24 - 3
	var numbers [3]int64
	for i, f := range []int{utime, stime, resident} {
		if numbers[i], err = strconv.ParseInt(fields[f], 10, 64); err != nil {
			return 0, 0, fmt.Errorf("read /proc/%d/stat: %w", pid, err)
		}
	}
	const tick = 10 * time.Millisecond // USER_HZ is 100 on every Linux that Go runs on
	return time.Duration(numbers[0]+numbers[1]) * tick, numbers[2] * int64(os.Getpagesize()), nil
}
